// Live view of a run. The server process (server.py) sends the network and its measurements.
"use strict";
const HISTORY = 300, MARGIN = 28;
// reasons of drops, per target
const DROPS = {
  minip4: {ingress: "ingress", egress: "egress", queue: "queue", no_port: "no port", memory: "memory"},
  bmv2: {bmv2: "in bmv2, or dropped by it"},
};
const $ = id => document.getElementById(id);
// `now` is the measurement that the page shows, and `last` the one before it.
let network = null, places = [], timeline = null, last = null, now = null, isLive = true;
let chartBegin = 0, chartEnd = 0; // times of the first and the last measurement in the chart
let isConnected = true;
let rows = [], switchRows = new Map(), reasons = {}, selected = 0, isPaused = false, note = "";

// --- layout: distances on the canvas approximate the numbers of hops (stress majorization) ---

function distancesOf(count, edges) {
  const near = Array.from({length: count}, () => []);
  for (const [a, b] of edges) near[a].push(b);
  return near.map((_, start) => {
    const hops = Array(count).fill(count), queue = [start];
    hops[start] = 0;
    for (const at of queue) {
      for (const next of near[at]) {
        if (hops[next] < count) continue;
        hops[next] = hops[at] + 1;
        queue.push(next);
      }
    }
    return hops;
  });
}

function farthest(hops) {
  return hops.indexOf(Math.max(...hops));
}

// Rows of a fabric such as leaf-spine or fat-tree, with the hosts at the bottom. Returns null if the
// network is no fabric: it has no hosts, a link is within a row, or there is only one switch at the top.
function fabricOf(nodes, edges, hops) {
  const hosts = nodes.map((_, i) => i).filter(i => !nodes[i].is_switch);
  if (!hosts.length) return null;
  const tier = nodes.map((node, i) => node.is_switch ? Math.min(...hosts.map(host => hops[i][host])) : 0);
  const top = Math.max(...tier), rows = Array.from({length: top + 1}, () => []);
  if (edges.some(([a, b]) => Math.abs(tier[a] - tier[b]) !== 1)) return null;
  tier.forEach((row, i) => rows[row].push(i));
  if (top < 2 || rows[top].length < 2) return null;
  const near = host => hops[host].indexOf(1);
  rows[0].sort((a, b) => near(a) - near(b) || a - b);
  const places = [];
  rows.forEach((row, y) => row.forEach((i, x) => { places[i] = [(x + .5) / row.length, 1 - y / top]; }));
  return places;
}

// Returns [x, y] per node, both from 0 to 1.
function layOut(nodes, edges) {
  const count = nodes.length, hops = distancesOf(count, edges), fabric = fabricOf(nodes, edges, hops);
  if (fabric) return fabric;
  const right = farthest(hops[0]), left = farthest(hops[right]); // often the receiver and the sender
  if (hops[left][right] === count - 1) return hops[left].map(x => [x / (count - 1 || 1), .5]); // a chain
  const side = farthest(hops[left].map((value, i) => Math.min(value, hops[right][i])));
  let at = hops.map((own, i) => [own[left] - own[right] + .01 * i, own[side] + .5 * Math.sin(7 * i)]);
  const rounds = Math.min(100, Math.ceil(4e6 / (count * count)));
  for (let round = 0; round < rounds; round++) {
    at = at.map(([x, y], i) => {
      let sumX = 0, sumY = 0, weights = 0;
      at.forEach(([otherX, otherY], j) => {
        if (i === j) return;
        const weight = 1 / hops[i][j] ** 2;
        const stretch = hops[i][j] / Math.max(Math.hypot(x - otherX, y - otherY), 1e-6);
        sumX += weight * (otherX + stretch * (x - otherX));
        sumY += weight * (otherY + stretch * (y - otherY));
        weights += weight;
      });
      return weights ? [sumX / weights, sumY / weights] : [x, y];
    });
  }
  const scale = axis => {
    const values = at.map(place => place[axis]), low = Math.min(...values), range = Math.max(...values) - low;
    return values.map(value => range > .5 ? (value - low) / range : .5);
  };
  const [x, y] = [scale(0), scale(1)];
  return x.map((value, i) => [value, y[i]]);
}

// --- values ---

// Values of direction `index`: {mbps, share, lost, drops}, since the last measurement. The counters
// of a switch that was started again begin at 0.
function rateOf(index) {
  const after = now.directions[index], before = last?.directions[index];
  const seconds = last ? (now.time_ns - last.time_ns) / 1e9 : 0;
  if (!(seconds > 0)) return {mbps: 0, share: 0, lost: 0, drops: 0};
  const mbps = Math.max(after.bytes - before.bytes, 0) * 8 / seconds / 1e6;
  const rate = network.directions[index].rate_bps;
  return {
    mbps, share: rate ? mbps * 1e6 / rate : null,
    lost: Math.max(after.lost - before.lost, 0) || 0,
    drops: Math.max(after.queue_drops - before.queue_drops, 0) || 0,
  };
}

function setText(cell, value) {
  if (cell.textContent !== value) cell.textContent = value;
}

// --- drawing; coordinates are CSS pixels ---

function drawDirection(pen, direction, index, at, rate, fastest, hasNumber) {
  const [x0, y0] = at(direction.from), [x1, y1] = at(direction.to);
  const length = Math.max(Math.hypot(x1 - x0, y1 - y0), 1);
  const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
  const point = (along, aside) => [x0 + along * dx - aside * dy, y0 + along * dy + aside * dx];
  const load = rate.share ?? rate.mbps / fastest;
  pen.beginPath();
  pen.moveTo(...point(0, 3));
  pen.lineTo(...point(length, 3));
  pen.lineWidth = (hasNumber ? 1 : .5) * (1 + 4 * Math.min(load, 1));
  pen.strokeStyle = colour(!rate.mbps ? "line" : !(rate.share >= .7) ? "link" : rate.share < .95 ? "focus" : "bad");
  pen.stroke();
  if (!hasNumber) return;
  const {queued = 0, on_link = 0} = now.directions[index], gone = rate.lost + rate.drops;
  if (queued + on_link) {
    pen.fillStyle = colour("ink");
    pen.fillText(queued + on_link, ...point(Math.min(26, .3 * length), 13));
  }
  if (gone) {
    pen.fillStyle = colour("bad");
    pen.fillText(`−${gone}`, ...point(.5 * length, 13));
  }
}

function drawScene(rates) {
  const width = $("scene").clientWidth;
  const many = network.nodes.length > 40;
  const isChain = places.every(place => place[1] === .5);
  const [pen] = clean($("scene"), isChain ? 100 : Math.min(many ? 600 : 340, Math.max(220, width)));
  const height = $("scene").clientHeight;
  const isDense = width * height < 2000 * network.nodes.length; // no room for names
  const hasNumbers = width * height >= 1000 * Math.max(network.directions.length, 2 * network.nodes.length);
  const inRow = new Map();
  for (const [, y] of places) inRow.set(y, (inRow.get(y) ?? 0) + 1);
  const at = name => {
    const [x, y] = places[network.nodes.findIndex(node => node.name === name)];
    return [MARGIN + x * (width - 2 * MARGIN), MARGIN + y * (height - 2 * MARGIN)];
  };
  const points = new Map(network.nodes.map(node => [node.name, at(node.name)]));
  drawPath(pen, points);
  const fastest = Math.max(1e-9, ...rates.filter(rate => rate.share === null).map(rate => rate.mbps));
  network.directions.forEach((direction, index) =>
    drawDirection(pen, direction, index, name => points.get(name), rates[index], fastest, hasNumbers));
  [pen.lineWidth, pen.strokeStyle] = [1, colour("quiet")];
  if (many) pen.font = "9px system-ui, sans-serif";
  network.nodes.forEach(({name, is_switch}, index) => {
    const hasName = !isDense && pen.measureText(name).width + 8 < width / inRow.get(places[index][1]);
    drawNode(pen, hasName ? name : "", points.get(name), is_switch, !hasName ? 3 : many ? 7 : 13);
  });
}

function drawChart() {
  if (!("queued" in now.directions[selected])) {
    const [pen, width] = clean($("chart"), 130);
    pen.fillStyle = colour("quiet");
    pen.fillText("not measured: only switches count their packets", width / 2, 65);
    chartBegin = chartEnd = now.time_ns;
    return;
  }
  const shown = timeline.around(now.time_ns, HISTORY);
  [chartBegin, chartEnd] = [shown[0].time_ns, shown.at(-1).time_ns];
  const values = shown.map(({time_ns, directions}) => {
    const {queued = 0, on_link = 0} = directions[selected];
    return [chartEnd > chartBegin ? (time_ns - chartBegin) / (chartEnd - chartBegin) : 1, queued, queued + on_link];
  });
  const most = Math.max(1, ...values.map(value => value[2]));
  const {pen, width, x, y} = startChart($("chart"), 130, most);
  pen.fillText(seconds(chartBegin), 64, 120);
  pen.fillText(seconds(chartEnd), width - 34, 120);
  for (const [column, name, label] of [[2, "quiet", "in queue and on link"], [1, "link", "in queue"]]) {
    pen.beginPath();
    for (const value of values) pen.lineTo(x(value[0]), y(value[column]));
    pen.strokeStyle = pen.fillStyle = colour(name);
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.fillText(label, column === 2 ? .62 * width : .35 * width, 120);
  }
  if (!isLive) drawCursor(pen, x((now.time_ns - chartBegin) / (chartEnd - chartBegin || 1)), 130);
}

// Returns a function that runs `work` in the next frame: once, even if it is called several times.
function inNextFrame(work) {
  let isRequested = false;
  return () => {
    if (!isRequested) requestAnimationFrame(() => { isRequested = false; work(); });
    isRequested = true;
  };
}

const requestDraw = inNextFrame(draw);

function draw() {
  if (!now) return;
  const rates = network.directions.map((_, index) => rateOf(index));
  updateFlows();
  drawScene(rates);
  drawChart();
  updateTimeline();
  rows.forEach(({row, cells}, index) => {
    if (!visibleRows.has(row)) return;
    const {lost, queued, on_link, queue_drops} = now.directions[index], {mbps, share} = rates[index];
    [mbps.toFixed(mbps < 10 ? 3 : 1), share === null ? "" : `${(100 * share).toFixed(0)} %`,
      lost, queued, on_link, queue_drops].forEach((value, i) => setText(cells[i], `${value ?? ""}`));
  });
  for (const [name, {row, cells}] of switchRows) {
    if (!visibleRows.has(row)) continue;
    Object.keys(reasons).forEach((reason, i) => setText(cells[i], `${now.drops[name]?.[`${reason}_drops`] ?? ""}`));
  }
}

// --- time: live, or an earlier measurement ---

const seconds = time_ns => `${(time_ns / 1e9).toFixed(3)} s`;

function updateTimeline() {
  const {latest, kept} = timeline, time = seconds(now.time_ns);
  const state = note || (!isConnected ? ", no connection" : isPaused ? ", paused" : "");
  setText($("state"), `${network.name}: ${time}${isLive ? "" : ` of ${seconds(latest.time_ns)}`}${state}`);
  [$("time").min, $("time").max, $("time").value] = [kept[0].time_ns, latest.time_ns, now.time_ns];
  $("time").setAttribute("aria-valuetext", time);
  $("live").setAttribute("aria-pressed", isLive);
}

// Shows a measurement. The latest one is live.
function showIndex(index) {
  const {kept} = timeline, shown = Math.min(Math.max(index, 0), kept.length - 1);
  isLive = shown === kept.length - 1;
  [last, now] = [kept[shown - 1], kept[shown]];
  requestDraw();
}

const seek = time_ns => now && showIndex(timeline.indexAt(time_ns));
const step = count => now && showIndex(timeline.indexAt(now.time_ns) + count);
const goLive = () => now && showIndex(Infinity);

function toggleLive() {
  if (!now) return;
  if (!isLive) return goLive();
  isLive = false;
  requestDraw();
}

// In virtual time, the run pauses. In real time, only the page does.
const pause = () => $("play").hidden ? toggleLive() : $("play").click();

const KEYS = {" ": pause, ArrowLeft: () => step(-1), ArrowRight: () => step(1), End: goLive};

function pressKey(event) {
  const {key, target, altKey, ctrlKey, metaKey} = event;
  const isUsed = target.matches("select, .scroll, input:not([type=range])") || (key === " " && target.matches("button"));
  if (!KEYS[key] || isUsed || altKey || ctrlKey || metaKey) return;
  event.preventDefault();
  KEYS[key]();
}

// --- events ---

function numberCells(row, count) {
  return Array.from({length: count}, () => {
    const cell = row.insertCell();
    cell.className = "number";
    return cell;
  });
}

// In large networks, most rows are not visible. Updates of all rows would take most of the time.
const visibleRows = new Set();
const rowObserver = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) visibleRows[isIntersecting ? "add" : "delete"](target);
  requestDraw();
}, {rootMargin: "1000px"});

// The tab key reaches only the selected row. The keys up and down select another one.
function select(index) {
  selected = index;
  rows.forEach(({button}, i) => {
    button.setAttribute("aria-pressed", i === index);
    button.tabIndex = i === index ? 0 : -1;
  });
  $("selected").textContent = rows[index].button.textContent;
}

function showNetwork(description) {
  const before = rows[selected]?.button.textContent;
  network = description;
  [timeline, last, now, isLive, note] = [new Timeline(network.directions.length), null, null, true, ""];
  const numbers = new Map(network.nodes.map((node, index) => [node.name, index]));
  places = layOut(network.nodes, network.directions.map(each => [numbers.get(each.from), numbers.get(each.to)]));
  rowObserver.disconnect();
  visibleRows.clear();
  $("links").replaceChildren();
  $("switches").replaceChildren();
  rows = network.directions.map((direction, index) => {
    const row = $("links").insertRow(), button = document.createElement("button");
    button.textContent = `${direction.from} to ${direction.to}`;
    button.addEventListener("click", () => { select(index); draw(); });
    row.insertCell().append(button);
    rowObserver.observe(row);
    return {row, button, cells: numberCells(row, 6)};
  });
  reasons = DROPS[network.target];
  $("reasons").innerHTML = `<tr><th>switch${Object.values(reasons).map(text => `<th class="number">${text}`).join("")}`;
  switchRows = new Map(network.nodes.filter(node => node.is_switch).map(({name}) => {
    const row = $("switches").insertRow();
    row.insertCell().textContent = name;
    rowObserver.observe(row);
    return [name, {row, cells: numberCells(row, Object.keys(reasons).length)}];
  }));
  const isSwitch = name => network.nodes[numbers.get(name)].is_switch;
  const choices = [
    index => rows[index].button.textContent === before,
    index => isSwitch(network.directions[index].from) && isSwitch(network.directions[index].to),
    index => isSwitch(network.directions[index].from),
  ];
  const indices = [...rows.keys()];
  select(choices.map(choice => indices.find(choice)).find(index => index !== undefined) ?? 0);
  document.querySelectorAll(".network").forEach(part => { part.hidden = false; });
  setText($("state"), `${network.name}: starting`);
}

function showMeasurement(measurement) {
  timeline.add(measurement);
  if (isLive) showIndex(Infinity);
  else requestDraw();
}

function post(name) {
  if ($("play").hidden) return; // real time
  fetch(name, {method: "POST", body: isPaused ? "0" : $("speed").value}).catch(() => {});
}

function showPaused(paused) {
  isPaused = paused;
  $("play").textContent = isPaused ? "Run" : "Pause";
  draw();
}

$("speed").addEventListener("change", () => post("speed"));
$("play").addEventListener("click", () => {
  showPaused(!isPaused);
  post("speed");
});
$("live").addEventListener("click", toggleLive);
$("time").addEventListener("input", () => seek($("time").valueAsNumber));
onChartTime($("chart"), part => seek(chartBegin + part * (chartEnd - chartBegin)));
addEventListener("keydown", pressKey);
$("links").addEventListener("keydown", event => {
  const next = rows[selected + {ArrowUp: -1, ArrowDown: 1}[event.key]];
  if (!next) return;
  event.preventDefault();
  next.button.focus();
  next.button.click();
});
addEventListener("resize", requestDraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", requestDraw);
const events = new EventSource("events");
const on = (kind, handle) => events.addEventListener(kind, event => handle(JSON.parse(event.data)));
events.addEventListener("open", () => {
  isConnected = true;
  post("first-speed");
  draw();
});
on("network", showNetwork);
on("measurement", showMeasurement);
on("speed", speed => { // of any page
  if (speed !== "0") $("speed").value = speed;
  showPaused(speed === "0");
});
on("stopped", () => {
  note = ", stopped";
  draw();
});
on("end", () => {
  events.close();
  if (!note) setText($("state"), "The run has ended");
  note = ", the run has ended";
  $("play").disabled = $("speed").disabled = true;
  draw();
});
events.addEventListener("error", () => { // the browser connects again, and continues after the last event
  isConnected = false;
  setText($("state"), "No connection to the run");
  draw();
});
