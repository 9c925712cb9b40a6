// The live page: shows the events of the control server, and sends commands to it.
//
// Everything that comes from the server may hold text of the web (host names, URLs, reasons). It
// enters the page as the text of a node only, after `plain`. Memory: URLS_MAX lines and POINTS_MAX
// points, however long the page is open.

const URLS_MAX = 200;
const POINTS_MAX = 300; // ten minutes: a point every two seconds
const ROWS_MAX = 10; // of a panel; the rest is summed up
const SILENCE_MS = 20_000; // without a byte, the connection counts as lost
const RETRY_MS = [1000, 2000, 4000, 8000, 15_000];

const FUNNEL = {
  extracted: "Taken from the queue", host_passed: "Within the caps", ip_passed: "Address allowed",
  robots_passed: "Allowed by robots.txt", crawled: "Answered",
};

const HOST_STATES = ["ready", "leased", "snoozed", "parked", "waiting", "deferred", "idle", "retired"];

const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// Text

// Control characters, and those that change the direction of the text around them, as \u{...}.
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;
const plain = (value) =>
  String(value).replace(INVISIBLE, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const number = (value) => {
  if (!Number.isFinite(value)) return "–";
  return (Math.abs(value) < 10 && !Number.isInteger(value) ? tenths : whole).format(value);
};
const milliseconds = (ms) => {
  if (!Number.isFinite(ms)) return "–";
  return ms < 1000 ? `${number(ms)} ms` : `${tenths.format(ms / 1000)} s`;
};
function bytes(size) {
  if (!Number.isFinite(size)) return "–";
  let unit = 0;
  while (size >= 1000 && unit < 5) { size /= 1000; unit += 1; }
  return `${unit ? tenths.format(size) : whole.format(size)} ${["B", "kB", "MB", "GB", "TB", "PB"][unit]}`;
}
function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  let rest = Math.max(Math.round(seconds), 0);
  const words = [];
  for (const [size, unit] of parts) {
    if (rest >= size || unit === "s") words.push(`${Math.floor(rest / size)} ${unit}`);
    rest %= size;
  }
  return words.slice(0, 2).join(" ").replace(/ 0 (s|min|h)$/, "");
}
// An estimate: minutes from ten minutes on, hours from ten hours on.
function about(seconds) {
  const step = seconds < 600 ? 1 : seconds < 36_000 ? 60 : 3600;
  return duration(Math.round(seconds / step) * step);
}
const clock = (time) => new Date(time).toLocaleTimeString("en-GB");

// Nodes

function make(tag, className = "", text = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

// Set the text of `node`, if it has changed: an unchanged one keeps the reader's selection.
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Make the children of `parent` show `items`; nodes are kept.
function sync(parent, items, create, update) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  items.forEach((item, i) => update(parent.children[i] ?? parent.appendChild(create()), item));
}

function bar() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  const rect = document.createElementNS(SVG, "rect");
  rect.setAttribute("height", "100%");
  svg.append(rect);
  return svg;
}
function setBar(svg, part) {
  const percent = Number.isFinite(part) ? Math.min(Math.max(part, 0), 1) * 100 : 0;
  svg.firstElementChild.setAttribute("width", `${percent.toFixed(1)}%`);
}

function bars(id, entries, { most = 0, format = number, empty = "None." } = {}) {
  const highest = most || Math.max(...entries.map(([, value]) => value), 0);
  const rows = entries.length ? entries : [[empty, null]];
  const create = () => {
    const row = make("div");
    row.append(make("dt"), make("dd"), bar());
    return row;
  };
  sync(byId(id), rows, create, (row, [name, value]) => {
    const [dt, dd, svg] = row.children;
    say(dt, plain(name));
    say(dd, value === null ? "" : format(value));
    dt.className = value === null ? "empty" : "";
    svg.toggleAttribute("hidden", value === null || format === bytes);
    setBar(svg, value / highest);
  });
}

const table = (id, rows, cells, update = () => {}) =>
  sync(byId(id).tBodies[0], rows,
    () => { const row = make("tr"); row.append(...cells()); return row; },
    (row, item) => update([...row.children], item, row));

// The largest entries of an object of counts.
function largest(counts) {
  const sorted = Object.entries(counts ?? {}).filter(([, n]) => n).sort((a, b) => b[1] - a[1]);
  const rest = sorted.slice(ROWS_MAX);
  if (!rest.length) return sorted;
  return [...sorted.slice(0, ROWS_MAX), [`${rest.length} others`, rest.reduce((sum, [, n]) => sum + n, 0)]];
}
const withPrefix = (counts, prefix, word = "") =>
  Object.fromEntries(Object.entries(counts)
    .filter(([name]) => name.startsWith(prefix))
    .map(([name, n]) => [word + name.slice(prefix.length), n]));

// Lines over time

const points = []; // [milliseconds, pages_per_s, mbps, whether it is the first of a connection]

function draw(svg, range, column) {
  const end = points.at(-1)[0];
  const span = Math.max(end - points[0][0], 1);
  const values = points.map((point) => point[column]);
  const top = Math.max(...values, 1e-9);
  const parts = []; // a line for each connection: what the crawl did between two is not known
  points.forEach((point, i) => {
    if (!i || point[3]) parts.push([]);
    const x = (300 - 300 * (end - point[0]) / span).toFixed(1);
    parts.at(-1).push([x, `${x} ${(46 - 43 * values[i] / top).toFixed(1)}`]);
  });
  const lines = parts.map((part) => `M${part.map(([, place]) => place).join("L")}`);
  const areas = parts.map((part, i) => `${lines[i]}L${part.at(-1)[0]} 48L${part[0][0]} 48Z`);
  const shapes = [["area", areas.join("")], ["", lines.join("")]];
  sync(svg, points.length > 1 ? shapes : [], () => document.createElementNS(SVG, "path"), (path, [name, d]) => {
    path.setAttribute("class", name);
    path.setAttribute("d", d);
  });
  say(range, points.length > 1
    ? `${number(Math.min(...values))} to ${number(Math.max(...values))} in the last ${duration(span / 1000)}` : "");
}

// Snapshot

let latest = null;

function show(snapshot, isFirst) {
  latest = snapshot;
  const crawl = snapshot.whole ?? snapshot; // of all hubs
  const counts = crawl.counts ?? {};
  const name = plain(snapshot.spider || "webcrawl");
  say(byId("spider"), name);
  document.title = `${number(crawl.pages_per_s)} pages/s · ${name}`;
  const processes = snapshot.processes > 1 ? `, ${snapshot.processes} processes` : "";
  say(byId("facts"), `${duration(snapshot.elapsed_s)}${processes}, webcrawl ${plain(snapshot.version ?? "")}`);
  say(byId("pause"), snapshot.state === "paused" ? "Resume" : "Pause");
  showHubs(snapshot.whole);
  showSpeed(crawl, counts, isFirst, snapshot);
  showStages(snapshot);
  bars("funnel", Object.entries(FUNNEL).map(([key, label]) => [label, counts[key] ?? 0]));
  const place = (state) => (HOST_STATES.indexOf(state) + HOST_STATES.length + 1) % (HOST_STATES.length + 1);
  const hosts = Object.entries(snapshot.hosts ?? {}).sort(([one], [other]) => place(one) - place(other));
  bars("hosts", hosts, { empty: "Not known." });
  bars("codes", [
    ...Object.entries(withPrefix(counts, "codes/")).filter(([code, n]) => n || code !== "other"),
    ...largest(withPrefix(counts, "walls/", "of these, bot walls: ")),
    ...largest(withPrefix(counts, "failed/", "no answer: ")),
  ]);
  bars("drops", largest(crawl.drops));
  bars("kept", largest(crawl.kept));
  showLevels(crawl.levels);
  showHosts(snapshot);
  showMemory(snapshot);
}

// The hubs of a crawl with several.
function showHubs(crawl) {
  byId("whole").hidden = !crawl;
  if (!crawl) return;
  const away = crawl.hubs.filter((each) => each.away_since).map((each) => `hub ${each.hub} since ${each.away_since}`);
  say(byId("away"), plain(`This is hub ${crawl.hub} of ${crawl.hubs.length}. ${away.length ? `Away: ${away.join(", ")}. Counted as last heard.` : "All are there."}`));
}

function showSpeed(snapshot, counts, isFirst, own) {
  points.push([Date.now(), snapshot.pages_per_s ?? 0, snapshot.mbps ?? 0, isFirst]);
  if (points.length > POINTS_MAX) points.shift();
  say(byId("pages_per_s"), number(snapshot.pages_per_s));
  say(byId("mbps"), number(snapshot.mbps));
  draw(byId("line-pages"), byId("range-pages"), 1);
  draw(byId("line-mbps"), byId("range-mbps"), 2);
  say(byId("crawled"), number(counts.crawled));
  say(byId("queued"), number(counts.pending));
  const underWay = own.counts?.under_way;
  say(byId("underway"), `${number(underWay)} request${underWay === 1 ? "" : "s"} under way${own.whole ? " at this hub" : ""}`);
  const { target } = own;
  byId("progress").hidden = !target;
  if (target) byId("progress").value = Math.min(counts.crawled / target, 1);
  const left = own.target_left_s > 0 ? `, about ${about(own.target_left_s)} left` : "";
  say(byId("target"), target ? `of ${number(target)}${left}` : "no target");
}

function showStages({ stages = [], limited_by: limit }) {
  say(byId("limit"), plain(limit?.text ?? ""));
  const cells = () => {
    const head = make("th");
    head.scope = "row";
    head.append(make("span"), make("span", "tag", "the limit"));
    const meter = make("td");
    const row = make("span", "meter");
    row.append(make("span"), bar());
    meter.append(row);
    return [head, meter, make("td", "n"), make("td", "n")];
  };
  table("stages", stages, cells, ([head, meter, rate, mean], stage, row) => {
    const isLimit = stage.name === limit?.stage;
    row.className = isLimit ? "limiting" : "";
    say(head.children[0], plain(stage.name));
    head.children[1].hidden = !isLimit;
    const [text, svg] = meter.firstElementChild.children;
    say(text, `${number(stage.under_way)}${stage.limit ? ` of ${number(stage.limit)}` : ""}`);
    svg.toggleAttribute("hidden", !stage.limit);
    setBar(svg, stage.under_way / stage.limit);
    say(rate, number(stage.per_s));
    say(mean, milliseconds(stage.mean_ms));
  });
}

function showLevels(levels) {
  const found = levels?.found ?? [];
  const cells = () => {
    const head = make("th");
    head.scope = "row";
    const part = make("td");
    const meter = make("span", "meter");
    meter.append(bar(), make("span", "n"));
    part.append(meter);
    return [head, make("td", "n"), make("td", "n"), part];
  };
  table("levels", found.map((n, i) => [i + 1, n, levels.ended[i]]), cells,
    ([head, all, ended, part], [level, foundHere, endedHere]) => {
      say(head, level === 10 ? "10+" : String(level));
      say(all, number(foundHere));
      say(ended, number(endedHere));
      const share = foundHere ? endedHere / foundHere : 0;
      const [svg, text] = part.firstElementChild.children;
      setBar(svg, share);
      say(text, foundHere ? `${Math.floor(100 * share)}%` : "–");
    });
}

function showHosts(snapshot) {
  const cells = () => [make("td", "host"), make("td", "n"), make("td", "n")];
  const list = (id, texts) => table(id, (snapshot[id] ?? []).slice(0, ROWS_MAX), cells,
    (nodes, each) => [plain(each.host), ...texts(each)].forEach((text, i) => say(nodes[i], text)));
  list("largest_queues", (each) => [number(each.urls), each.ready_in_s > 0 ? duration(each.ready_in_s) : "now"]);
  list("slowest_hosts", (each) => [milliseconds(each.mean_ms), number(each.urls)]);
}

function showMemory({ rss_bytes: memory = {}, disk = {} }) {
  const names = { free_bytes: "Disk, free", warc_bytes: "WARC files", jobdir_bytes: "JOBDIR" };
  bars("memory", [
    ...Object.entries(memory).map(([name, size]) => [`Memory, ${name}`, size]),
    ...Object.entries(names).filter(([key]) => Number.isFinite(disk?.[key])).map(([key, label]) => [label, disk[key]]),
  ], { format: bytes, empty: "Not known." });
}

// Last URLs

let shown = []; // rows of the list, the newest first
let waiting = []; // lines that came while the list was held, or before the first draw
let leftOut = 0;
let isHeld = false;

function groupOf(line) {
  if (line.kind === "robots") return "robots";
  if (line.end === "dropped" || line.end === "kept") return line.end;
  return line.status ? `${String(line.status)[0]}xx` : "dropped";
}

function endOf(line) {
  const words = [line.kind === "robots" ? "robots.txt" : line.kind === "head" ? "HEAD" : ""];
  if (line.end === "dropped" || line.end === "kept") words.push(line.end + (line.reason ? ":" : ""));
  else words.push(line.status ?? "", line.end === "retried" || line.end === "lost" ? line.end : "");
  if (line.reason) words.push(line.reason);
  if (line.wall) words.push(`wall: ${line.wall}`);
  return plain(words.filter((word) => word !== "").join(" "));
}

const TONES = { "4xx": "warm", "5xx": "bad", dropped: "warm", "3xx": "quiet", kept: "quiet", robots: "quiet" };

function rowOf(line) {
  const row = make("tr");
  const group = groupOf(line);
  const url = make("button", "url", plain(line.url ?? ""));
  url.type = "button";
  url.tabIndex = -1; // 200 stops of the tab key would hide the rest of the page
  url.title = "Explain this URL";
  url.addEventListener("click", () => explain(String(line.url)));
  const cell = make("td");
  cell.append(url);
  row.append(
    make("td", "quiet", clock(line.time)), make("td", TONES[group] ?? "", endOf(line)), cell,
    make("td", "n quiet", line.size_bytes ? bytes(line.size_bytes) : ""),
    make("td", "n quiet", line.total_ms ? milliseconds(line.total_ms) : ""));
  return { row, group, text: `${line.url} ${line.reason ?? ""} ${line.status ?? ""}`.toLowerCase() };
}

function addUrls(lines) {
  waiting = [...waiting, ...lines].slice(-URLS_MAX);
  if (!isHeld) drawUrls();
}

function drawUrls() {
  const fresh = waiting.map(rowOf).reverse();
  waiting = [];
  fresh.forEach(filterRow);
  byId("urls").tBodies[0].prepend(...fresh.map((each) => each.row));
  shown = [...fresh, ...shown];
  for (const old of shown.splice(URLS_MAX)) old.row.remove();
  sayEmpty();
}

function filterRow(each) {
  const group = byId("status").value;
  const text = byId("filter").value.trim().toLowerCase();
  each.row.hidden = Boolean((group && group !== each.group) || (text && !each.text.includes(text)));
}

function sayEmpty() {
  byId("no-urls").hidden = shown.some((each) => !each.row.hidden);
  say(byId("no-urls"), shown.length ? `None of the last ${shown.length} URLs fits.` : "No URL yet.");
  say(byId("left-out"), leftOut ? `${number(leftOut)} more were too many to list` : "");
}

function clearUrls() {
  shown = [];
  waiting = [];
  leftOut = 0;
  byId("urls").tBodies[0].replaceChildren();
  sayEmpty();
}

// Connection

// The token, from the URL of the crawl or, after a reload, from this tab. The storage belongs to the
// port, so no other server on 127.0.0.1 can read it. The address bar shows no secret.
function takeToken() {
  const given = new URLSearchParams(location.search).get("token") ?? "";
  history.replaceState(null, "", "/");
  try {
    if (given) sessionStorage.setItem("token", given);
    return sessionStorage.getItem("token") ?? "";
  } catch {
    return given; // this browser stores nothing: a reload needs the URL again
  }
}
const AUTHORIZATION = { Authorization: `Bearer ${encodeURIComponent(takeToken())}` };

let failures = 0;
let heardAt = 0; // time of the last snapshot
let ended = ""; // the reason, once the server has said it
let refused = ""; // the reason, if the server does not take the token

// The events of the server as [name, value], until the connection is closed, lost or silent.
// EventSource would do this, but sends no Authorization header.
async function* events() {
  const cut = new AbortController();
  let silence = 0;
  const heard = () => { clearTimeout(silence); silence = setTimeout(() => cut.abort(), SILENCE_MS); };
  try {
    heard();
    const answer = await fetch("/events", { headers: AUTHORIZATION, signal: cut.signal });
    if (answer.status === 403) refused = plain((await answer.json()).error);
    if (!answer.ok) return;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      heard();
      const received = (rest + read.value).split("\n\n");
      rest = received.pop();
      for (const event of received) {
        const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(event) ?? [];
        if (name) yield [name, JSON.parse(data)];
      }
    }
  } catch {
    // the server has gone
  } finally {
    clearTimeout(silence);
    cut.abort();
  }
}

async function connect() {
  let isFirst = true;
  const receive = {
    snapshot(snapshot) {
      if (isFirst) clearUrls(); // the server sends the last lines again
      [failures, heardAt, ended] = [0, Date.now(), ""];
      setState(snapshot.state);
      show(snapshot, isFirst);
      isFirst = false;
    },
    urls: addUrls,
    left_out(count) { leftOut += count; sayEmpty(); },
    end({ reason }) { ended = plain(reason); },
  };
  for await (const [name, value] of events()) {
    try {
      receive[name]?.(value);
    } catch (error) {
      reportError(error); // the next event may be shown
    }
    if (name === "end") break;
  }
  setState(refused ? "refused" : ended ? "ended" : "away");
  if (refused) return; // another try would have the same token
  setTimeout(connect, RETRY_MS[Math.min(ended ? RETRY_MS.length : failures, RETRY_MS.length - 1)]);
  failures += 1;
}

function setState(state) {
  const isGone = ["ended", "away", "refused"].includes(state);
  say(byId("state"), state === "away" ? "no connection" : plain(state));
  byId("state").className = `state ${["running", "paused", "outage", "closing", "away", "refused"].includes(state) ? state : ""}`;
  const last = heardAt ? ` The page shows its last state, of ${clock(heardAt)}.` : "";
  byId("notice").hidden = !isGone;
  if (isGone) {
    const reason = {
      ended: `The crawl has ended: ${ended}.`,
      away: "The crawl has ended or cannot be reached; trying again.",
      refused: `The crawl refuses this page: ${refused}.`,
    }[state];
    say(byId("notice"), reason + last);
    if (ended) say(byId("limit"), "");
    document.title = `${byId("state").textContent} · ${byId("spider").textContent}`;
  }
  const isOver = isGone || state === "closing"; // a crawl that is ending takes no command
  for (const button of document.querySelectorAll("header button, form[data-command] button")) button.disabled = isOver;
}

// Commands

async function ask(path, options = {}) {
  try {
    const answer = await fetch(path, { ...options, headers: { ...options.headers, ...AUTHORIZATION } });
    const value = await answer.json();
    return answer.ok ? value : { error: value.error ?? `status ${answer.status}` };
  } catch {
    return { error: "the crawl gave no answer" };
  }
}

function brief(words) {
  const text = words.join(" ");
  return plain(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}

async function command(name, words, text) {
  const answer = await ask("/command", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ command: name, arguments: words }),
  });
  const line = make("li", answer.error ? "bad" : "", `${clock(Date.now())} ${brief([name, ...words])}: ${plain(answer.error ?? answer.message)}`);
  byId("answers").prepend(line);
  for (const old of [...byId("answers").children].slice(5)) old.remove();
  if (!answer.error && text) text.value = "";
}

async function explain(url) {
  byId("url").value = url;
  byId("url").scrollIntoView({ block: "nearest" });
  const answer = await ask(`/explain?url=${encodeURIComponent(url)}`);
  const lines = answer.lines ?? [answer.error];
  byId("explanation").replaceChildren(...lines.map((line) => make("li", answer.error ? "bad" : "", plain(line))));
}

byId("explain").addEventListener("submit", (event) => {
  event.preventDefault();
  explain(byId("url").value.trim());
});
for (const form of document.querySelectorAll("form[data-command]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = form.querySelector("input, textarea");
    const words = text.value.split(/\s+/).filter(Boolean);
    if (words.length) command(form.dataset.command, words, text);
  });
}
byId("pause").addEventListener("click", () => command(latest?.state === "paused" ? "resume" : "pause", []));
byId("stop").addEventListener("click", () => byId("confirm").showModal());
byId("confirm").addEventListener("close", () => {
  if (byId("confirm").returnValue === "stop") command("stop", []);
  byId("confirm").returnValue = "";
});
byId("hold").addEventListener("click", () => {
  isHeld = !isHeld;
  byId("hold").setAttribute("aria-pressed", String(isHeld));
  if (!isHeld) drawUrls();
});
for (const id of ["status", "filter"]) {
  byId(id).addEventListener("input", () => { shown.forEach(filterRow); sayEmpty(); });
}

connect();
