"use strict";
// Draws what the server sends: the scene once, then frames. Angles in radians, lengths in metres, z up.
const $ = (id) => document.getElementById(id);
const token = new URLSearchParams(location.hash.slice(1)).get("token") || "";
let scene = null, frame = null, status = null, first = null, socket = null, frames = 0, shownAt = performance.now(), rate = 0;
const eye = { turn: 0.7, lift: 0.25, zoom: 1 };

function connect() {
  socket = new WebSocket(`ws://${location.host}/live`);
  socket.onmessage = (event) => take(JSON.parse(event.data));
  socket.onclose = () => { gone("the view has ended; trying again"); setTimeout(connect, 1000); };
}

function take(message) {
  if (message.kind === "scene") {
    scene = message; first = null;
    $("title").textContent = scene.title; document.title = `${scene.robot} - prestress`;
    $("pressures").hidden = !scene.pressure_pa;
    for (const id of ["arm", "disarm", "reset"]) $(id).hidden = !scene.pressure_pa;
  } else if (message.kind === "frame") {
    frame = message; frames += 1;
    if (message.status) { status = message.status; tables(); }
    if (!first && frame.cable_length_m) first = frame.cable_length_m;
    $("state").textContent = frame.fault ? `${frame.state}: ${frame.fault}` : frame.state;
    $("state").className = `state ${frame.state}`;
    if (frame.troubles.length) say(`trouble: ${frame.troubles.join(", ")}`);
    $("truth").hidden = !frame.true_position_m;
  } else if (message.kind === "gone") gone(message.error);
  else if (message.kind === "answer") say(message.line);
  requestAnimationFrame(draw);
}

function gone(text) { $("state").textContent = "no daemon"; $("state").className = "state gone"; say(text); }
function say(text) { if ($("line").textContent !== text) $("line").textContent = text; }
function command(what) { if (socket.readyState === 1) socket.send(JSON.stringify({ do: what, token })); else say("not connected"); }

// --- 3-D ------------------------------------------------------------------------------------------------------------
function places(position, rotation) {
  return scene.joints.map(([disc, x, y, z]) => {
    const p = position[disc], r = rotation[disc];
    return [0, 1, 2].map((i) => p[i] + r[i][0] * x + r[i][1] * y + r[i][2] * z);
  });
}

function camera(canvas) {
  const c = Math.cos(eye.turn), s = Math.sin(eye.turn), cl = Math.cos(eye.lift), sl = Math.sin(eye.lift);
  const middle = scene.height_m / 2, far = 3 * scene.height_m;
  const scale = eye.zoom * 0.8 * Math.min(canvas.width / scene.height_m, canvas.height / (1.25 * scene.height_m)) * far;
  return ([x, y, z]) => {
    const u = c * x - s * y, d = s * x + c * y, h = z - middle;
    const depth = far + cl * d - sl * h;
    return [canvas.width / 2 + scale * u / depth, canvas.height / 2 - scale * (cl * h + sl * d) / depth];
  };
}

function fit(canvas) {
  const k = window.devicePixelRatio || 1, w = Math.round(canvas.clientWidth * k), h = Math.round(canvas.clientHeight * k);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, w, h);
  return pen;
}

const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function lines(pen, see, joints, pairs, colour, width) {
  pen.strokeStyle = colour; pen.lineWidth = width * (window.devicePixelRatio || 1); pen.beginPath();
  for (const [a, b] of pairs) { pen.moveTo(...see(joints[a])); pen.lineTo(...see(joints[b])); }
  pen.stroke();
}

function shape(pen, see, position, rotation, colour, width) {
  const joints = places(position, rotation);
  lines(pen, see, joints, scene.cables, ink("cable"), 0.5 * width);
  lines(pen, see, joints, scene.rings.flatMap((ring) => ring.map((j, k) => [j, ring[(k + 1) % ring.length]])), colour, 0.6 * width);
  lines(pen, see, joints, scene.struts, colour, 1.6 * width);
}

function draw() {
  if (!scene) return;
  const canvas = $("shape"), pen = fit(canvas), see = camera(canvas), r = 0.35 * scene.height_m;
  const floor = []; for (let k = -4; k <= 4; k++) floor.push([[k * r / 4, -r, 0], [k * r / 4, r, 0]], [[-r, k * r / 4, 0], [r, k * r / 4, 0]]);
  pen.strokeStyle = ink("edge"); pen.lineWidth = 1; pen.beginPath();
  for (const [a, b] of floor) { pen.moveTo(...see(a)); pen.lineTo(...see(b)); }
  pen.stroke();
  if (frame && frame.true_position_m) shape(pen, see, frame.true_position_m, frame.true_rotation, ink("truth"), 1);
  if (frame && frame.position_m) shape(pen, see, frame.position_m, frame.rotation, ink("estimate"), 1.6);
  bars(); lengths();
}

// --- panels ---------------------------------------------------------------------------------------------------------
function bars() {
  if (!scene.pressure_pa || !frame) return;
  const canvas = $("bars"), pen = fit(canvas), [low, high] = scene.pressure_pa, n = scene.cylinders.length, w = canvas.width / n;
  const y = (p) => canvas.height * (1 - (p - 0) / (high * 1.05));
  pen.fillStyle = ink("edge"); pen.fillRect(0, y(high), canvas.width, 1); pen.fillRect(0, y(low), canvas.width, 1);
  pen.fillStyle = ink("estimate");
  (frame.measured_pa || []).forEach((p, k) => pen.fillRect(k * w + 1, y(p), w - 2, canvas.height - y(p)));
  pen.fillStyle = ink("text");
  (frame.setpoint_pa || []).forEach((p, k) => pen.fillRect(k * w, y(p) - 1, w, 2));
}

function lengths() {
  if (!first || !frame.cable_length_m) return;
  const canvas = $("lengths"), pen = fit(canvas), change = frame.cable_length_m.map((v, k) => v - first[k]);
  const most = Math.max(0.005, ...change.map(Math.abs)), w = canvas.width / change.length, zero = canvas.height / 2;
  pen.fillStyle = ink("edge"); pen.fillRect(0, zero, canvas.width, 1);
  pen.fillStyle = ink("estimate");
  change.forEach((v, k) => pen.fillRect(k * w + 1, Math.min(zero, zero - v / most * zero), w - 2, Math.abs(v) / most * zero));
  pen.fillStyle = ink("faint"); pen.font = `${11 * (window.devicePixelRatio || 1)}px system-ui`;
  pen.fillText(`±${(1000 * most).toFixed(0)} mm`, 2, 12 * (window.devicePixelRatio || 1));
}

function table(id, rows) {
  $(id).replaceChildren(...rows.map((row) => {
    const line = document.createElement("tr");
    for (const cell of row) { const td = document.createElement("td"); td.textContent = cell; line.append(td); }
    return line;
  }));
}

function tables() {
  const now = performance.now(); rate = 1000 * frames / (now - shownAt); frames = 0; shownAt = now;
  const e = status.estimate, s = status.struts;
  table("pose", e ? [["tip", `${e.tip_m.map((v) => v.toFixed(3)).join(", ")} m ± ${e.tip_sigma_mm.toFixed(1)} mm`],
    ["tilt", `${e.tilt_deg.toFixed(1)}°`], ["age", `${e.age_ms.toFixed(0)} ms ${e.flags}`],
    ["goal", status.goal ? `${status.goal}, ${status.goal_error_mm.toFixed(0)} mm off` : "none"]] : [["tip", "no estimate yet"]]);
  table("loops", status.loops.map((l) => [l.name, `${l.rate_hz} Hz`, `late ${(l.late_p99_us / 1000).toFixed(2)} ms`, `${l.overruns} skipped`]));
  const flagged = Object.entries(s.flagged).map(([id, flag]) => `${id} ${flag}`).join(", ");
  table("link", [["struts", `${s.online} of ${scene.strut_ids.length} online`], ["samples", `${s.samples}, ${s.lost} lost`],
    ["flagged", flagged || "none"], ["boards", Object.entries(status.boards).map(([id, b]) => `${id} ${b.age_ms.toFixed(0)} ms`).join(", ") || "none"],
    ["daemon", `${status.process.cpu_pct} % of a core, ${status.process.rss_mb.toFixed(0)} MB`], ["page", `${rate.toFixed(0)} frames/s`]]);
}

// --- hands ----------------------------------------------------------------------------------------------------------
for (const id of ["arm", "disarm", "reset", "stop"]) $(id).onclick = () => command(id);
const pad = $("shape");
pad.onpointerdown = (event) => pad.setPointerCapture(event.pointerId);
pad.onpointermove = (event) => {
  if (!pad.hasPointerCapture(event.pointerId)) return;
  eye.turn += event.movementX * 0.008;
  eye.lift = Math.max(-1.5, Math.min(1.5, eye.lift + event.movementY * 0.008));
  requestAnimationFrame(draw);
};
pad.onwheel = (event) => { event.preventDefault(); eye.zoom = Math.max(0.3, Math.min(6, eye.zoom * Math.exp(-event.deltaY * 0.001))); requestAnimationFrame(draw); };
window.onresize = () => requestAnimationFrame(draw);
connect();
