// The hand on the timeline: point at a shape, choose it, drag the picture, zoom with the wheel.

const STILL = 4; // px a pointer may move and still mean a click

/**
 * bindPointing(scroll, plot, {select(seq), hover(node, event), zoom(factor, x)}): shapes are the
 * nodes with data-seq (they can be chosen) and data-label (they say something).
 */
export function bindPointing(scroll, plot, { select, hover, zoom }) {
  let drag = null;
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = { x: event.clientX, left: scroll.scrollLeft, node: event.target.closest("[data-seq]"), isMoved: false };
  });
  plot.addEventListener("pointermove", (event) => {
    const by = drag ? event.clientX - drag.x : 0;
    if (drag && event.pointerType === "mouse" && (drag.isMoved || Math.abs(by) > STILL)) {
      if (!drag.isMoved) plot.setPointerCapture(event.pointerId);
      drag.isMoved = true;
      scroll.scrollLeft = drag.left - by;
      return hover(null);
    }
    hover(event.target.closest("[data-label]"), event);
  });
  plot.addEventListener("pointerup", () => {
    if (drag?.node && !drag.isMoved) select(Number(drag.node.dataset.seq));
    drag = null;
  });
  plot.addEventListener("pointercancel", () => (drag = null));
  plot.addEventListener("pointerleave", () => hover(null));
  scroll.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, event.clientX - scroll.getBoundingClientRect().left);
  }, { passive: false });
}
