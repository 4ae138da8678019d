// Player of replay.json (telemark/results/replay.py) in index.html. All times are in us.
"use strict";
const MIN_ON_LINK_S = 0.25; // a dot is visible on a link for at least this time, at any speed
const data = JSON.parse(document.getElementById("replay-data").textContent);
const [scene, chart, play, slider, speed, output] =
  ["scene", "chart", "play", "time", "speed", "now"].map(id => document.getElementById(`replay-${id}`));

// Times of the packets of a flow, one row per packet. A row contains the time of sending at the
// sender, the times of reception and of sending at each switch, and the time of reception at the
// receiver.
function timesOf(flow) {
  const width = 2 * flow.path.length - 2, rows = [];
  let sent = 0;
  for (let at = 0; at < flow.packets.length; at += width) {
    sent += flow.packets[at];
    const row = [sent];
    for (let i = 1; i < width; i++) row.push(row[i - 1] + flow.packets[at + i]);
    rows.push(row);
  }
  return rows;
}

// The longest queue of each switch: {from, to, steps, most}. `from` is the switch, and `to` is the
// next node. `steps` are pairs [time, packets], and `most` is the maximum number of packets.
function queuesOf(flows) {
  const changes = new Map();
  for (const {path, times} of flows) {
    for (let hop = 1; hop < path.length - 1; hop++) {
      const key = `${path[hop]} ${path[hop + 1]}`;
      if (!changes.has(key)) changes.set(key, []);
      for (const row of times) changes.get(key).push([row[2 * hop - 1], 1], [row[2 * hop], -1]);
    }
  }
  const longest = new Map();
  for (const [key, list] of changes) {
    const [from, to] = key.split(" ");
    let packets = 0;
    const steps = list.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(
      ([time, change]) => [time, packets += change]);
    const most = steps.reduce((best, step) => Math.max(best, step[1]), 0);
    if (!(longest.get(from)?.most >= most)) longest.set(from, {from, to, steps, most});
  }
  return [...longest.values()].sort((a, b) => a.from.localeCompare(b.from));
}

const flows = data.flows.map(flow => ({...flow, times: timesOf(flow)}));
const queues = queuesOf(flows);
const most = Math.max(1, ...queues.map(queue => queue.most));
const longest = queues.find(queue => queue.most === most);
let now = longest ? longest.steps.find(step => step[1] === most)[0] : 0;
let isPlaying = false, isFresh = true, lastFrame = 0;

function waitingAt(queue) {
  return flows.map(({path, times}) => {
    const hop = path.indexOf(queue.from);
    if (hop < 1 || path[hop + 1] !== queue.to) return 0;
    return times.filter(row => row[2 * hop - 1] <= now && now < row[2 * hop]).length;
  });
}

function drawDots(pen, at) {
  const least = MIN_ON_LINK_S * speed.value;
  flows.forEach(({path, times, colour: fill}, lane) => {
    pen.fillStyle = fill;
    for (const row of times) {
      if (row[0] > now || row[row.length - 1] + least < now) continue;
      for (let link = 0; link < path.length - 1; link++) {
        const leaves = row[2 * link];
        const part = (now - leaves) / Math.max(row[2 * link + 1] - leaves, least);
        if (part < 0 || part >= 1) continue;
        const [x0, y0] = at(path[link]), [x1, y1] = at(path[link + 1]);
        const side = 4 * (lane - (flows.length - 1) / 2) / Math.hypot(x1 - x0, y1 - y0);
        pen.beginPath();
        pen.arc(x0 + part * (x1 - x0) - side * (y1 - y0), y0 + part * (y1 - y0) + side * (x1 - x0), 2.5, 0, 7);
        pen.fill();
      }
    }
  });
}

function drawNodes(pen, at) {
  const switches = new Set(queues.map(queue => queue.from));
  for (const name of Object.keys(data.places)) drawNode(pen, name, at(name), switches.has(name), 13);
}

function drawBar(pen, [x, y], counts, height) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  let top = y;
  counts.forEach((count, index) => {
    const part = height * count / most;
    pen.fillStyle = flows[index].colour;
    pen.fillRect(x - 9, top, 18, part);
    top += part;
  });
  pen.strokeRect(x - 9.5, y - .5, 19, height + 1);
  pen.fillStyle = colour("ink");
  pen.fillText(total, x, y + height + 10);
}

function drawScene() {
  const [pen, width] = clean(scene, 260);
  const at = name => [width * data.places[name][0] * .94 + width * .03, 160 * data.places[name][1] + 8];
  for (const {path} of flows) {
    pen.beginPath();
    path.forEach(name => pen.lineTo(...at(name)));
    pen.stroke();
  }
  drawDots(pen, at);
  drawNodes(pen, at);
  return queues.map(queue => {
    const counts = waitingAt(queue), [x, y] = at(queue.from);
    drawBar(pen, [x, y + 20], counts, 110);
    return counts;
  });
}

function drawChart() {
  const {pen, x: xOfPart, y} = startChart(chart, 150, most), x = time => xOfPart(time / data.lasts_us);
  for (let time = data.zero_us % 50000; time <= data.lasts_us; time += 50000) {
    pen.fillText(`${(time - data.zero_us) / 1000} ms`, x(time), 140);
  }
  pen.strokeStyle = colour("link");
  for (const {steps} of queues) {
    pen.beginPath();
    pen.moveTo(x(0), y(0));
    let before = 0;
    for (const [time, packets] of steps) {
      const here = Math.min(Math.max(time, 0), data.lasts_us);
      pen.lineTo(x(here), y(before));
      pen.lineTo(x(here), y(before = packets));
    }
    pen.stroke();
  }
  drawCursor(pen, x(now), 150);
}

function draw() {
  const counts = drawScene();
  drawChart();
  const waiting = queues.map(({from, to}, index) => {
    const some = counts[index].map((count, i) => [count, flows[i].name]).filter(([count]) => count);
    const total = some.reduce((sum, [count]) => sum + count, 0);
    return [total, `${from} to ${to}: ${total} (${some.map(each => each.join(" ")).join(", ")})`];
  }).sort((a, b) => b[0] - a[0])[0];
  slider.value = now;
  const time = `${((now - data.zero_us) / 1000).toFixed(1)} ms`;
  slider.setAttribute("aria-valuetext", time);
  output.textContent = `At ${time} ` +
    (waiting[0] ? `longest queue: ${waiting[1]}` : "all queues empty");
}

function frame(stamp) {
  if (!isPlaying) return;
  now = Math.min(now + (stamp - lastFrame) / 1000 * speed.value, data.lasts_us);
  lastFrame = stamp;
  draw();
  if (now >= data.lasts_us) stop();
  else requestAnimationFrame(frame);
}

function stop() {
  isPlaying = false;
  play.textContent = "Play";
}

function seek(time) {
  now = Math.min(Math.max(time, 0), data.lasts_us);
  isFresh = false;
  draw();
}

play.addEventListener("click", () => {
  if (isPlaying) return stop();
  if (isFresh || now >= data.lasts_us) seek(0);
  isPlaying = true;
  play.textContent = "Pause";
  requestAnimationFrame(stamp => frame(lastFrame = stamp));
});
slider.max = data.lasts_us;
slider.addEventListener("input", () => seek(Number(slider.value)));
onChartTime(chart, part => seek(data.lasts_us * part));
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
for (const {name, colour: fill} of flows) {
  const dot = document.createElement("span");
  dot.style.background = fill;
  document.getElementById("replay-flows").append(dot, ` ${name} `);
}
draw();
