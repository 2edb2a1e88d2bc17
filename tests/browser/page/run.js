// Runs every test and leaves {name: error or null} in window.results.

import { tests } from "./harness.js";
import "./store.test.js";
import "./pictures.test.js";
import "./pure.test.js";

const results = {};
for (const { name, run } of tests) {
  try {
    run();
    results[name] = null;
  } catch (error) {
    results[name] = String(error?.stack ?? error);
  }
}
globalThis.results = results;
