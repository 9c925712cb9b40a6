// Draws the tables and plots of the report from the JSON in the page. All text of the web enters
// the document as text (textContent), never as markup.
"use strict";

const root = document.documentElement;
const data = JSON.parse(document.getElementById("data").textContent);
const SHOWN = 12, STEP = 100, WITHOUT_TOOLS = 20;
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

const FORMATS = {
  count: (n) => whole.format(n),
  number: (n) => (n >= 1e15 ? n.toExponential(2) : Math.abs(n) >= 100 ? whole.format(n) : short.format(n)),
  bytes: (n) => scaled(n, ["B", "kB", "MB", "GB", "TB", "PB"]),
  share: (n) => (n && n < 0.001 ? "<0.1%" : (100 * n).toFixed(1) + "%"),
  ms: (n) => (n >= 10000 ? short.format(n / 1000) + " s" : short.format(n) + " ms"),
  label: (n) => String(n),
  s: (n) => (n >= 7200 ? short.format(n / 3600) + " h" : n >= 600 ? short.format(n / 60) + " min" : short.format(n) + " s"),
};

function scaled(n, units) {
  let at = 0;
  while (n >= 1000 && at < units.length - 1) { n /= 1000; at += 1; }
  return short.format(n) + " " + units[at];
}

const SCALES = [[1e15, "quadrillion"], [1e12, "trillion"], [1e9, "billion"], [1e6, "million"]];

function quantity(n, unit) {  // a number with its unit
  if (unit === "bytes" || unit === "share") return FORMATS[unit](n);
  const [size, word] = SCALES.find(([least]) => n >= least) || [1, ""];
  return [short.format(n / size), word, unit].filter(Boolean).join(" ");
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const isLeft = (column) => ["text", "url", "host", "label"].includes(column.kind);

function cell(column, value, row) {
  if (isLeft(column)) return element("td", column.kind, value === null ? "" : String(value));
  if (value === null) return element("td", "n", "–");
  if (column.kind === "quantity") return element("td", "n", quantity(value, row[column.unit]));
  const text = FORMATS[column.kind](value);
  if (column.kind !== "share" || !column.bar) return element("td", "n", text);
  const td = element("td", "share"), bar = element("div", "bar"), fill = element("i");
  fill.style.width = Math.round(100 * value / column.bar) + "%";
  bar.append(element("span", "", text), fill);
  td.append(bar);
  return td;
}

function drawTable(box, table) {
  let rows = table.rows, sorted = -1, down = true, words = "";
  const isLong = table.rows.length > WITHOUT_TOOLS, atFirst = isLong ? SHOWN : WITHOUT_TOOLS;
  let shown = atFirst;
  table.columns.forEach((column, at) => {
    if (column.kind === "share") column.bar = Math.max(...table.rows.map((row) => row[at] || 0));
  });
  const body = element("tbody"), more = element("button", "more"), count = element("span");
  const shownColumns = table.columns.map((_, at) => at).filter((at) => table.columns[at].kind !== "unit");
  const heads = shownColumns.map((at) => {
    const column = table.columns[at];
    const th = element("th", isLeft(column) || column.kind === "share" ? "" : "n");
    const button = element("button", "", column.label);
    button.type = "button";
    button.addEventListener("click", () => {
      down = sorted === at ? !down : !isLeft(column);
      sorted = at;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      draw();
    });
    if (isLong) th.append(button); else th.textContent = column.label;
    return th;
  });

  function draw() {
    rows = table.rows;
    if (words) {
      const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
      rows = rows.filter((row) => {
        const text = row.filter((v) => typeof v === "string").join(" ").toLowerCase();
        return wanted.every((word) => text.includes(word));
      });
    }
    if (sorted >= 0) {
      rows = rows.slice().sort((a, b) => {
        const x = a[sorted], y = b[sorted];
        if (x === null || y === null) return (x === null) - (y === null);
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      });
    }
    body.replaceChildren(...rows.slice(0, shown).map((row) => {
      const tr = element("tr");
      tr.append(...shownColumns.map((at) => cell(table.columns[at], row[at], row)));
      return tr;
    }));
    const left = rows.length - Math.min(shown, rows.length);
    more.hidden = left === 0;
    more.textContent = "Show " + whole.format(Math.min(STEP, left)) + " more of " + whole.format(left);
    count.textContent = whole.format(rows.length) + (words ? " of " + whole.format(table.rows.length) : "") + " rows"
      + (table.total > table.rows.length ? " (the CSV has all " + whole.format(table.total) + ")" : "");
  }

  if (!table.rows.length) {
    box.replaceChildren(element("p", "empty", "Nothing was counted."));
    return;
  }
  more.type = "button";
  more.addEventListener("click", () => { shown += STEP; draw(); });
  more.hidden = true;
  const drawn = element("table"), head = element("thead"), line = element("tr");
  line.append(...heads);
  head.append(line);
  drawn.append(head, body);
  const scroll = element("div", "box");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", box.dataset.label || "table");
  scroll.append(drawn);
  if (isLong) {
    const tools = element("div", "tools"), input = element("input");
    input.type = "search";
    input.placeholder = "Filter, for example gov.br";
    input.setAttribute("aria-label", "Filter the rows");
    input.addEventListener("input", () => { words = input.value; shown = atFirst; draw(); });
    tools.append(input, count);
    box.replaceChildren(tools, scroll, more);
  } else box.replaceChildren(scroll);
  draw();
}

// Plots. Colours are names of CSS variables.

function coloured(value, style) {
  if (typeof value === "string") return value.startsWith("--") ? style.getPropertyValue(value).trim() : value;
  if (Array.isArray(value)) return value.map((each) => coloured(each, style));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, coloured(each, style)]));
  }
  return value;
}

function axis(own, style) {
  const font = { size: 12, color: style.getPropertyValue("--soft").trim() };
  return {
    gridcolor: style.getPropertyValue("--faint").trim(), linecolor: style.getPropertyValue("--rule").trim(),
    zerolinecolor: style.getPropertyValue("--rule").trim(), tickfont: font, automargin: true, fixedrange: true,
    ...own, title: own.title ? { text: own.title.text, font, standoff: 8 } : undefined,
  };
}

function drawPlot(box) {
  const plot = data.plots[box.dataset.plot], style = getComputedStyle(root);
  const layout = { ...plot.layout };
  for (const name of ["xaxis", "yaxis", "yaxis2"]) if (layout[name]) layout[name] = axis(layout[name], style);
  if (layout.yaxis2) layout.yaxis2.showgrid = false;
  const ink = style.getPropertyValue("--ink").trim();
  Plotly.react(box, coloured(plot.data, style), coloured({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink },
    margin: { l: 8, r: 8, t: 8, b: 8 },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } },
    hoverlabel: { bgcolor: "--panel", bordercolor: "--rule", font: { color: "--ink", size: 12 } },
    ...layout,
  }, style), { displayModeBar: false, responsive: true });
  box.dataset.drawn = "yes";
}

function setTheme(theme) {
  root.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
  document.querySelectorAll('.plot[data-drawn="yes"]').forEach(drawPlot);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
setTheme(dark.matches ? "dark" : "light");
dark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));

document.querySelectorAll("[data-table]").forEach((box) => drawTable(box, data.tables[box.dataset.table]));
if (typeof Plotly === "undefined") {
  document.querySelectorAll(".plot").forEach((box) => box.replaceChildren(element("p", "empty", "plotly.min.js is missing beside this page.")));
} else {
  const waiting = [...document.querySelectorAll(".plot")];
  const drawNext = () => {  // one at a time: the page can be scrolled meanwhile
    const box = waiting.shift();
    if (box) { drawPlot(box); setTimeout(drawNext); }
  };
  drawNext();
  addEventListener("beforeprint", () => document.querySelectorAll(".plot").forEach(drawPlot));
}
root.dataset.ready = "yes";
