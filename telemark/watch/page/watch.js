// Live view of a run. The server process (server.py) sends the network and its measurements.
"use strict";
const HISTORY = 300, MARGIN = 28, DROPS = ["ingress", "egress", "queue", "no_port", "memory"];
const $ = id => document.getElementById(id);
let network = null, places = [], last = null, now = null, history = [];
let rows = [], switchRows = new Map(), selected = 0, isPaused = false, note = "";

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

// Returns [x, y] per node, both from 0 to 1.
function layOut(count, edges) {
  const hops = distancesOf(count, edges);
  const left = farthest(hops[0]), right = farthest(hops[left]);
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

// Values of direction `index`: {mbps, share, lost, drops}, since the last measurement.
function rateOf(index) {
  const after = now.directions[index], before = last?.directions[index];
  const seconds = last ? (now.time_ns - last.time_ns) / 1e9 : 0;
  if (!(seconds > 0)) return {mbps: 0, share: 0, lost: 0, drops: 0};
  const mbps = Math.max(after.bytes - before.bytes, 0) * 8 / seconds / 1e6;
  const rate = network.directions[index].rate_bps;
  return {
    mbps, share: rate ? mbps * 1e6 / rate : null,
    lost: (after.lost - before.lost) || 0, drops: (after.queue_drops - before.queue_drops) || 0,
  };
}

function setText(cell, value) {
  if (cell.textContent !== value) cell.textContent = value;
}

// --- drawing; coordinates are CSS pixels ---

function drawDirection(pen, direction, index, at, rate, fastest) {
  const [x0, y0] = at(direction.from), [x1, y1] = at(direction.to);
  const length = Math.max(Math.hypot(x1 - x0, y1 - y0), 1);
  const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
  const point = (along, aside) => [x0 + along * dx - aside * dy, y0 + along * dy + aside * dx];
  const load = rate.share ?? rate.mbps / fastest;
  pen.beginPath();
  pen.moveTo(...point(0, 3));
  pen.lineTo(...point(length, 3));
  pen.lineWidth = 1 + 4 * Math.min(load, 1);
  pen.strokeStyle = colour(!rate.mbps ? "line" : !(rate.share >= .7) ? "link" : rate.share < .95 ? "focus" : "bad");
  pen.stroke();
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
  const at = name => {
    const [x, y] = places[network.nodes.findIndex(node => node.name === name)];
    return [MARGIN + x * (width - 2 * MARGIN), MARGIN + y * (height - 2 * MARGIN)];
  };
  const points = new Map(network.nodes.map(node => [node.name, at(node.name)]));
  drawPath(pen, points);
  const fastest = Math.max(1e-9, ...rates.filter(rate => rate.share === null).map(rate => rate.mbps));
  network.directions.forEach((direction, index) =>
    drawDirection(pen, direction, index, name => points.get(name), rates[index], fastest));
  [pen.lineWidth, pen.strokeStyle] = [1, colour("quiet")];
  if (many) pen.font = "9px system-ui, sans-serif";
  for (const {name, is_switch} of network.nodes) {
    const [x, y] = points.get(name), size = many ? 7 : 13;
    const half = Math.max(size, pen.measureText(name).width / 2 + 3);
    pen.beginPath();
    if (is_switch) pen.ellipse(x, y, half, size, 0, 0, 7);
    else pen.rect(x - half, y - .7 * size, 2 * half, 1.4 * size);
    pen.fillStyle = colour("soft");
    pen.fill();
    pen.stroke();
    pen.fillStyle = colour("ink");
    pen.fillText(name, x, y);
  }
}

function drawChart() {
  const [pen, width] = clean($("chart"), 130);
  const end = history.at(-1).s, begin = history[0].s;
  const values = history.map(({s, directions}) => {
    const {queued = 0, on_link = 0} = directions[selected];
    return [s, queued, queued + on_link];
  });
  const most = Math.max(1, ...values.map(value => value[2]));
  const x = s => 44 + (width - 54) * (end > begin ? (s - begin) / (end - begin) : 1), y = packets => 105 - 92 * packets / most;
  pen.fillStyle = colour("quiet");
  for (const packets of [0, most]) {
    pen.fillText(packets, 20, y(packets));
    pen.strokeRect(44, y(packets), width - 54, 0);
  }
  pen.fillText(`${begin.toFixed(3)} s`, 64, 120);
  pen.fillText(`${end.toFixed(3)} s`, width - 34, 120);
  for (const [column, name, label] of [[2, "quiet", "in queue and on link"], [1, "link", "in queue"]]) {
    pen.beginPath();
    for (const value of values) pen.lineTo(x(value[0]), y(value[column]));
    pen.strokeStyle = pen.fillStyle = colour(name);
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.fillText(label, column === 2 ? .62 * width : .35 * width, 120);
  }
}

function draw() {
  if (!now) return;
  const rates = network.directions.map((_, index) => rateOf(index));
  updateFlows();
  drawScene(rates);
  drawChart();
  setText($("state"), `${network.name}: ${(now.time_ns / 1e9).toFixed(3)} s${note || (isPaused ? ", paused" : "")}`);
  rows.forEach(({cells}, index) => {
    const {lost, queued, on_link, queue_drops} = now.directions[index], {mbps, share} = rates[index];
    [mbps.toFixed(mbps < 10 ? 3 : 1), share === null ? "" : `${(100 * share).toFixed(0)} %`,
      lost, queued, on_link, queue_drops].forEach((value, i) => setText(cells[i], `${value ?? ""}`));
  });
  for (const [name, cells] of switchRows) {
    DROPS.forEach((reason, i) => setText(cells[i], `${now.drops[name]?.[`${reason}_drops`] ?? ""}`));
  }
}

// --- events ---

function numberCells(row, count) {
  return Array.from({length: count}, () => {
    const cell = row.insertCell();
    cell.className = "number";
    return cell;
  });
}

function select(index) {
  selected = index;
  rows.forEach(({button}, i) => button.setAttribute("aria-pressed", i === index));
  $("selected").textContent = rows[index].button.textContent;
}

function showNetwork(description) {
  network = description;
  [last, now, history, note] = [null, null, [], ""];
  const numbers = new Map(network.nodes.map((node, index) => [node.name, index]));
  places = layOut(network.nodes.length, network.directions.map(each => [numbers.get(each.from), numbers.get(each.to)]));
  $("links").replaceChildren();
  $("switches").replaceChildren();
  rows = network.directions.map((direction, index) => {
    const row = $("links").insertRow(), button = document.createElement("button");
    button.textContent = `${direction.from} to ${direction.to}`;
    button.addEventListener("click", () => { select(index); draw(); });
    row.insertCell().append(button);
    return {button, cells: numberCells(row, 6)};
  });
  switchRows = new Map(network.nodes.filter(node => node.is_switch).map(({name}) => {
    const row = $("switches").insertRow();
    row.insertCell().textContent = name;
    return [name, numberCells(row, DROPS.length)];
  }));
  const isSwitch = name => network.nodes[numbers.get(name)].is_switch;
  select(Math.max(0, network.directions.findIndex(each => isSwitch(each.from) && isSwitch(each.to))));
  setText($("state"), `${network.name}: starting`);
}

function showMeasurement(measurement) {
  [last, now] = [now, measurement];
  history.push({s: now.time_ns / 1e9, directions: now.directions});
  if (history.length > HISTORY) history.shift();
  requestAnimationFrame(draw);
}

function post() {
  if ($("controls").hidden) return; // real time
  fetch("speed", {method: "POST", body: isPaused ? "0" : $("speed").value}).catch(() => {});
}
$("speed").addEventListener("change", post);
$("play").addEventListener("click", () => {
  isPaused = !isPaused;
  $("play").textContent = isPaused ? "Run" : "Pause";
  draw();
  post();
});
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
const events = new EventSource("events");
const on = (kind, handle) => events.addEventListener(kind, event => handle(JSON.parse(event.data)));
events.addEventListener("open", post);
on("network", showNetwork);
on("measurement", showMeasurement);
on("stopped", () => {
  note = ", stopped";
  draw();
});
const end = () => {
  events.close();
  if (!note) setText($("state"), "The run has ended");
  note = ", the run has ended";
  draw();
};
on("end", end);
events.addEventListener("error", end);
