#include "lacuna/report/page.h"

#include <fmt/format.h>

#include "lacuna/core/error.h"
#include "lacuna/report/html.h"

extern const char* const tablesort_text;  // third_party/tablesort, through CMake

namespace lacuna::report {
namespace {

// Lines and fills: eight colours that people who see few colours can tell apart; densities: one
// hue, from the background's side to the far one.
constexpr const char* kLight =
    "--bg:#f7f8f9;--card:#fff;--fg:#1c2126;--pale:#65707b;--line:#dfe3e7;--grid:#e9edf0;"
    "--accent:#0a66a8;--warn-bg:#fff5dc;--warn:#8a5a00;--bad-bg:#fdeaea;--bad:#a32020;"
    "--quiet-bg:#eef2f5;"
    "--c0:#0072b2;--c1:#d55e00;--c2:#008f68;--c3:#a8497f;--c4:#56b4e9;--c5:#b07d00;--c6:#5b57b0;"
    "--c7:#5c6670;"
    "--h1:#cfe1f2;--h2:#b3d3e8;--h3:#92c2de;--h4:#6caed5;--h5:#4a97c9;--h6:#2f7ebc;--h7:#1864aa;"
    "--h8:#0a4a90;--h9:#08306b";
constexpr const char* kDark =
    "--bg:#121518;--card:#1a1e22;--fg:#e3e7ea;--pale:#98a3ad;--line:#323940;--grid:#2a3138;"
    "--accent:#6db8f2;--warn-bg:#332a14;--warn:#f0c674;--bad-bg:#3a1d1f;--bad:#f29a9a;"
    "--quiet-bg:#20262b;"
    "--c0:#5aaeea;--c1:#f08c4a;--c2:#3dc49b;--c3:#de94c0;--c4:#33688e;--c5:#e5b94e;--c6:#a09df0;"
    "--c7:#a4adb5;"
    "--h1:#16334d;--h2:#184668;--h3:#1d5a86;--h4:#276ea3;--h5:#3d85bd;--h6:#5d9ed2;--h7:#85b8e2;"
    "--h8:#b3d4ef;--h9:#e4f2fc";

constexpr const char* kStyle = R"css(
*{box-sizing:border-box}
html{background:var(--bg);color:var(--fg);scroll-behavior:smooth}
body{max-width:1100px;margin:0 auto;padding:28px 24px 80px;
 font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
header{display:flex;align-items:baseline;gap:14px;flex-wrap:wrap;margin-bottom:6px}
h1{font-size:26px;font-weight:650;margin:0;overflow-wrap:anywhere}
header span{color:var(--pale)}
header button{margin-left:auto}
h2{font-size:19px;font-weight:650;margin:44px 0 12px;padding-top:14px;border-top:1px solid var(--line)}
h3{font-size:16px;font-weight:650;margin:30px 0 8px}
p{margin:8px 0;max-width:92ch;overflow-wrap:anywhere}
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
nav{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:14px;margin:10px 0 16px}
button{font:inherit;font-size:13px;color:var(--pale);background:var(--card);
 border:1px solid var(--line);border-radius:6px;padding:3px 10px;cursor:pointer}
button:hover{color:var(--fg)}
.note{color:var(--pale);font-size:13.5px}
.pale{color:var(--pale);font-weight:400;font-size:.92em}
.banner{border-radius:8px;padding:10px 14px;margin:8px 0;overflow-wrap:anywhere}
.banner.warn{background:var(--warn-bg);color:var(--warn)}
.banner.bad{background:var(--bad-bg);color:var(--bad)}
.banner.quiet{background:var(--quiet-bg);color:var(--pale);font-size:14px}
b.warn{color:var(--warn)}
.cards{display:flex;flex-wrap:wrap;gap:12px;margin:12px 0 16px}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px;
 min-width:136px;flex:1 1 136px;display:flex;flex-direction:column}
.card b{font-size:17.5px;font-weight:650;font-variant-numeric:tabular-nums;line-height:1.3}
.card span{font-size:13.5px}
.card small{color:var(--pale);font-size:12.5px;overflow-wrap:anywhere}
.figures{display:grid;gap:16px;grid-template-columns:repeat(auto-fill,minmax(min(100%,440px),1fr));
 align-items:start;margin:12px 0}
figure{margin:12px 0;padding:14px 16px 10px;background:var(--card);border:1px solid var(--line);
 border-radius:10px;overflow-x:auto;min-width:0}
.figures figure{margin:0}
figcaption{font-weight:600;font-size:14.5px;margin-bottom:6px;overflow-wrap:anywhere}
svg.plot{display:block;width:100%;height:auto}
svg.plot.wide{min-width:640px}
.line path{fill:none;stroke-width:1.7;stroke-linejoin:round}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:12.5px;color:var(--pale);margin:4px 0}
.legend span{display:inline-flex;align-items:center;gap:6px;overflow-wrap:anywhere}
.legend svg{flex:none}
.swatch{margin-right:7px}
.legend path,.swatch path{stroke-width:2.5}
.d1{stroke-dasharray:6 3}.d2{stroke-dasharray:2 2.5}
.fields{display:grid;grid-template-columns:repeat(auto-fill,minmax(96px,1fr));gap:12px}
.field img{display:block;width:100%;image-rendering:pixelated;border:1px solid var(--line)}
.field small{display:block;color:var(--pale);font-size:12px;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:12px 0}
.tall{max-height:560px;overflow-y:auto}
.tall th{position:sticky;top:0;background:var(--bg)}figure .tall th{background:var(--card)}
table{border-collapse:collapse;font-size:13.5px;min-width:40%}
th{font-weight:600;color:var(--pale);text-align:left;vertical-align:bottom}
th,td{padding:4px 16px 4px 0;border-bottom:1px solid var(--line)}
th.n,td.n{text-align:right;font-variant-numeric:tabular-nums}
td.n{white-space:nowrap}
tr.strong td{font-weight:600}
.sortable th{cursor:pointer}.sortable th:hover{color:var(--fg)}
.sortable th[aria-sort=ascending]::after{content:" \2191"}
.sortable th[aria-sort=descending]::after{content:" \2193"}
input[type=search]{font:inherit;font-size:13.5px;color:var(--fg);background:var(--card);padding:4px 10px;
 border:1px solid var(--line);border-radius:6px;width:240px;max-width:100%}
.whole{white-space:nowrap}
code{font:.93em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
figure table{width:100%}figure td:first-child{overflow-wrap:anywhere}
.cellbar{display:inline-block;width:64px;height:9px;margin-right:8px;text-align:left}
.cellbar i{display:block;height:100%;background:var(--c0);border-radius:2px}
.heat{display:inline-block;padding:0 6px;border-radius:4px;
 background:color-mix(in srgb,var(--accent) calc(var(--level)*.45),transparent)}
details{margin:12px 0}
summary{cursor:pointer;font-weight:600;overflow-wrap:anywhere}
.run>details{border:1px solid var(--line);border-radius:10px;padding:12px 16px;margin:10px 0}
.code{position:relative}
.code button{position:absolute;top:8px;right:8px}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 70px 12px 14px;
 overflow-x:auto;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;margin:8px 0}
#tip{position:fixed;z-index:9;pointer-events:none;max-width:420px;padding:6px 10px;font-size:12.5px;
 line-height:1.45;color:var(--fg);background:var(--card);border:1px solid var(--line);
 border-radius:6px;box-shadow:0 3px 12px rgba(0,0,0,.18);overflow-wrap:anywhere}
#tip[hidden]{display:none}
#tip svg{margin-right:6px}
@media print{header button,nav,.copy,input[type=search]{display:none}figure,tr,.card{break-inside:avoid}
 body{max-width:none;padding:0}.scroll,figure{overflow:visible;max-height:none}svg.plot.wide{min-width:0}
 h2,h3,figcaption{break-after:avoid}table{font-size:11.5px}th,td{padding-right:9px}}
)css";

constexpr const char* kDrawings = R"css(
svg text{font-size:12px;fill:var(--pale)}
svg text.tm{text-anchor:middle}svg text.te{text-anchor:end}
svg text.b{fill:var(--fg);font-weight:600}
svg text.halo{paint-order:stroke;stroke:var(--card);stroke-width:5px}
svg .axis{stroke:var(--pale);stroke-width:1;opacity:.7}
svg .grid{stroke:var(--grid);stroke-width:1}
svg .guide{stroke:var(--fg);stroke-width:1;stroke-dasharray:4 4;opacity:.45;fill:none;
 pointer-events:none}
svg .fit{stroke:var(--c1);stroke-width:1.6;fill:none;pointer-events:none}
svg .ceiling{stroke:var(--c2);stroke-width:1.4;stroke-dasharray:7 3;fill:none}
svg .hit{fill:transparent}
svg .hollow{fill:var(--card)}
svg .wide{stroke-width:2}
svg .bar:hover{opacity:.75}
)css";

constexpr const char* kScript = R"js(
(function () {
  'use strict';
  var root = document.documentElement, tip = document.getElementById('tip');
  var space = 'http://www.w3.org/2000/svg';

  function isDark() {
    var chosen = root.getAttribute('data-theme');
    return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  }
  document.getElementById('theme').addEventListener('click', function () {
    root.setAttribute('data-theme', isDark() ? 'light' : 'dark');
  });

  // ---- the words at the pointer
  function show(event, lines) {
    tip.textContent = '';
    lines.forEach(function (line) {
      var row = document.createElement('div');
      if (line.key) row.appendChild(line.key);
      row.appendChild(document.createTextNode(line.text || line));
      tip.appendChild(row);
    });
    tip.hidden = false;
    var x = event.clientX + 14, y = event.clientY + 14;
    if (x + tip.offsetWidth > innerWidth - 8) x = event.clientX - tip.offsetWidth - 14;
    if (y + tip.offsetHeight > innerHeight - 8) y = event.clientY - tip.offsetHeight - 14;
    tip.style.left = Math.max(4, x) + 'px';
    tip.style.top = Math.max(4, y) + 'px';
  }
  // The title that the mark has; taken off it, so that the browser does not show it as well.
  function wordsOf(mark) {
    for (; mark && mark.nodeName !== 'svg'; mark = mark.parentNode) {
      if (mark.words) return mark.words;
      var title = mark.firstElementChild;
      if (title && title.nodeName === 'title') {
        mark.words = title.textContent;
        mark.setAttribute('aria-label', mark.words);
        title.remove();
        return mark.words;
      }
    }
    return '';
  }

  // ---- lines: the values of all of them at the pointer
  function scale(text) {
    var v = text.split(' ').map(Number);
    return function (value) {
      var part = v[4] ? Math.log(value / v[0]) / Math.log(v[1] / v[0]) : (value - v[0]) / (v[1] - v[0]);
      return v[2] + part * (v[3] - v[2]);
    };
  }
  function linesOf(svg) {
    if (svg.lines) return svg.lines;
    var x = scale(svg.dataset.x), y = scale(svg.dataset.y);
    svg.lines = Array.prototype.map.call(svg.querySelectorAll('.line'), function (group) {
      wordsOf(group);
      var xs = group.dataset.x.split(' ').map(Number), ys = group.dataset.y.split(' ').map(Number);
      return { name: group.dataset.n, path: group.querySelector('path'), xs: xs, ys: ys,
               px: xs.map(x), py: ys.map(y) };
    });
    svg.cross = document.createElementNS(space, 'path');
    svg.cross.setAttribute('class', 'guide');
    svg.appendChild(svg.cross);
    return svg.lines;
  }
  function nearest(sorted, value) {
    var low = 0, high = sorted.length - 1;
    while (high - low > 1) {
      var middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle; else high = middle;
    }
    return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
  }
  function keyOf(path) {
    var key = document.createElementNS(space, 'svg'), stroke = document.createElementNS(space, 'path');
    key.setAttribute('width', 18);
    key.setAttribute('height', 8);
    stroke.setAttribute('class', path.getAttribute('class'));
    stroke.setAttribute('stroke-width', 2.5);
    stroke.setAttribute('d', 'M1 4h16');
    key.appendChild(stroke);
    return key;
  }
  function showLines(svg, event) {
    var lines = linesOf(svg), box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    var ends = svg.dataset.y.split(' ');
    var x = (event.clientX - box.left) / box.width * view.width;
    var y = (event.clientY - box.top) / box.height * view.height;
    var at = lines.map(function (line) {
      var i = nearest(line.px, x);
      return { line: line, i: i, away: Math.abs(line.px[i] - x), off: Math.abs(line.py[i] - y) };
    });
    var closest = at.reduce(function (a, b) { return b.away < a.away ? b : a; });
    var here = closest.line.px[closest.i];
    svg.cross.setAttribute('d', 'M' + here + ' ' + ends[2] + 'V' + ends[3]);
    at = at.filter(function (one) {
      var px = one.line.px;
      return here > px[0] - 6 && here < px[px.length - 1] + 6;
    });
    at.sort(function (a, b) { return a.off - b.off; });
    var words = [svg.dataset.label + ' ' + closest.line.xs[closest.i]];
    at.slice(0, 10).forEach(function (one) {
      var x = one.line.xs[one.i];
      words.push({ key: keyOf(one.line.path),
                   text: one.line.name + ': ' + one.line.ys[one.i] +
                         (x === closest.line.xs[closest.i] ? '' : ' (at ' + x + ')') });
    });
    if (at.length > 10) words.push('and ' + (at.length - 10) + ' more');
    show(event, words);
  }

  document.addEventListener('pointermove', function (event) {
    var svg = event.target.closest ? event.target.closest('svg.plot') : null;
    if (!svg) { tip.hidden = true; return; }
    if (svg.dataset.x) { showLines(svg, event); return; }
    var words = wordsOf(event.target);
    if (words) show(event, [words]); else tip.hidden = true;
  });
  document.addEventListener('pointerout', function (event) {
    var svg = event.target.closest ? event.target.closest('svg.plot') : null;
    if (svg && svg.cross && !svg.contains(event.relatedTarget)) svg.cross.setAttribute('d', '');
    if (!event.relatedTarget) tip.hidden = true;
  });

  // ---- tables: sorted by a click on their head, and only the rows with what is looked for
  function numberOf(text) {
    var value = parseFloat(text.replace(/,/g, ''));
    return isNaN(value) ? -Infinity : value;
  }
  Tablesort.extend('n', function () { return false; }, function (a, b) {
    var x = numberOf(a), y = numberOf(b);
    return x === y ? 0 : x < y ? 1 : -1;
  });
  document.querySelectorAll('table.sortable').forEach(function (table) { new Tablesort(table); });
  document.addEventListener('input', function (event) {
    if (event.target.type !== 'search') return;
    var words = event.target.value.trim().toLowerCase();
    event.target.parentNode.querySelectorAll('tbody tr').forEach(function (row) {
      row.hidden = row.textContent.toLowerCase().indexOf(words) < 0;
    });
  });

  // ---- folds and copies
  document.addEventListener('click', function (event) {
    var link = event.target.closest('a[href^="#run"]'), button = event.target.closest('.copy');
    var target = link && document.getElementById(link.getAttribute('href').slice(1));
    var fold = target && target.querySelector('details');
    if (fold) fold.open = true;
    if (button && navigator.clipboard)
      navigator.clipboard.writeText(button.nextElementSibling.textContent).then(function () {
        button.textContent = 'copied';
      }, function () { button.textContent = 'select the text to copy it'; });
  });
  addEventListener('beforeprint', function () {
    document.querySelectorAll('details').forEach(function (fold) { fold.open = true; });
  });
})();
)js";

std::string colour_classes() {
  std::string out;
  for (int i = 0; i < kColours; ++i)
    out += fmt::format(".s{0}{{stroke:var(--c{0})}}.f{0}{{fill:var(--c{0})}}", i);
  for (int i = 1; i <= 9; ++i) out += fmt::format(".h{0}{{fill:var(--h{0})}}", i);
  return out;
}

std::string style() {
  return fmt::format(
      ":root{{color-scheme:light;{0}}}\n"
      "@media (prefers-color-scheme:dark){{:root{{color-scheme:dark;{1}}}}}\n"
      ":root[data-theme=light]{{color-scheme:light;{0}}}\n"
      ":root[data-theme=dark]{{color-scheme:dark;{1}}}\n{2}{3}{4}\n",
      kLight, kDark, kStyle, kDrawings, colour_classes());
}

}  // namespace

std::string page(std::string_view title, std::string_view subtitle, std::string_view lead,
                 const std::vector<PageSection>& sections) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{0} - Lacuna</title>\n<style>{1}</style>\n</head>\n<body>\n"
      "<header><h1>{0}</h1><span>{2}</span>"
      "<button type=\"button\" id=\"theme\">light / dark</button></header>\n{3}<nav>",
      escape(title), style(), escape(subtitle), lead);
  for (const auto& section : sections)
    out += fmt::format("<a href=\"#{}\">{}</a>", section.id, escape(section.title));
  out += "</nav>\n<main>\n";
  for (const auto& section : sections)
    out += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", section.id,
                       escape(section.title), section.html);
  return out + fmt::format(
                   "</main>\n<div id=\"tip\" hidden></div>\n<script>{}\n{}</script>\n</body>\n"
                   "</html>\n",
                   tablesort_text, kScript);
}

std::string standalone(const std::string& svg) {
  const size_t inside = svg.find('>') + 1;
  LACUNA_ASSERT(svg.starts_with("<svg ") && inside > 0);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" {}\n<style>:root{{{}}}\n"
      "@media (prefers-color-scheme:dark){{:root{{{}}}}}\n"
      "svg text{{font-family:system-ui,sans-serif}}{}{}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"var(--card)\"/>{}",
      svg.substr(5, inside - 5), kLight, kDark, kDrawings, colour_classes(), svg.substr(inside));
}

}  // namespace lacuna::report
