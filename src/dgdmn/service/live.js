// Follows runs: asks for their state every second, and for the report again when it has changed.
// Everything that comes from a run is inserted as text. Only the server's own page replaces a part of this one.
(() => {
  "use strict";

  const EVERY = 1000, HIDDEN = 10000;
  const panel = document.getElementById("live"), report = document.getElementById("report");
  const CSS = `
    #live { margin: 0 0 1.5rem; }
    #live p { margin: .15rem 0; font-size: .88rem; color: var(--muted); }
    #live .live-summary { font-size: 1rem; color: var(--text); }
    #live .live-problem:not(:empty) { color: var(--text); border-left: 3px solid var(--accent); padding-left: .7rem; }
    #live ul { list-style: none; margin: .6rem 0 0; padding: 0; display: grid; gap: .8rem; align-items: start;
      grid-template-columns: repeat(auto-fill, minmax(min(24rem, 100%), 1fr)); }
    #live li { overflow-wrap: anywhere; padding: .7rem .9rem; border: 1px solid var(--line); border-radius: .5rem;
      background: var(--surface); }
    #live progress { display: block; width: 100%; height: .6rem; margin: .4rem 0; accent-color: var(--accent); }
    #live img { width: 100%; max-width: 29rem; height: auto; margin-top: .5rem; }
    #live [hidden] { display: none; }
    #live code { user-select: all; padding: 0; }
    @media print { #live { display: none; } }`;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(CSS);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];

  const add = (tag, parent, name = "") => {
    const node = document.createElement(tag);
    if (name) node.className = name;
    parent.append(node);
    return node;
  };
  const say = (node, text) => {
    if (node.textContent !== text) node.textContent = text;
    node.hidden = !text;
  };
  const percent = (share) => `${Math.floor(100 * share)} %`;
  const duration = (seconds) => {
    if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
    return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
  };
  const left = (ends) => {  // nothing if unknown, or if the estimate has passed
    const seconds = ends === null ? 0 : ends - Date.now() / 1000;
    return seconds > 0 ? `, about ${duration(seconds)} left` : "";
  };
  const start = (run) => {  // what a run does before it has learned anything
    if (!run.step) return `reading the data and planning ${run.steps} tasks, ${duration(run.seconds)} so far`;
    return `learning task ${run.step} of ${run.steps}, ${duration(run.seconds)} so far; the time left is not known yet`;
  };
  const TEXT = {
    running: (run) => [
      run.share ? `${percent(run.share)} done${left(run.ends)}, ${duration(run.seconds)} so far; task ${run.step} of ${run.steps}`
        + (run.acc === null ? "" : `; accuracy ${run.acc.toFixed(3).replace(/^0\./, ".")} on the tasks seen`) : start(run),
      run.task && run.step ? `${run.phase}, task ${run.task}` : run.phase,
    ],
    stopped: (run) => [`stopped at ${percent(run.share)}, in task ${run.step} of ${run.steps}`, run.message],
    broken: (run) => [`cannot be read: ${run.problem}`, ""],
  };

  const summary = add("p", panel, "live-summary");
  summary.setAttribute("role", "status");  // announced when the counts change, not at every step of a bar
  const problem = add("p", panel, "live-problem");
  const list = add("ul", panel), cards = new Map();

  // As a data URL, because the page's policy allows no other images.
  const showImage = async (image, address) => {
    const answer = address ? await fetch(address).catch(() => null) : null;
    image.hidden = !answer?.ok;
    if (image.hidden) return;
    const reader = new FileReader();
    reader.addEventListener("load", () => { image.src = reader.result; });
    reader.readAsDataURL(await answer.blob());
  };
  const makeCard = (kind) => {
    const item = add("li", list);
    item.dataset.state = kind;
    const name = add("strong", item), bar = add("progress", item);
    const now = add("p", item, "live-now"), more = add("p", item, "live-phase"), how = add("p", item);
    how.append("Continue it: ");
    const command = add("code", how), image = add("img", item);
    bar.max = 1;
    bar.hidden = image.hidden = kind !== "running";
    how.hidden = kind !== "stopped";
    let shown = "";
    const update = (run) => {
      const [first, second] = TEXT[kind](run);
      say(name, run.name);
      say(now, first);
      say(more, second);
      say(command, run.command ?? "");
      if (run.share) bar.value = run.share;
      else bar.removeAttribute("value");  // moves, without a share
      bar.setAttribute("aria-label", `${run.name}, share of the work done`);
      image.alt = `newest dreams of ${run.name}`;
      if (kind === "running" && run.dreams !== shown) showImage(image, shown = run.dreams);
    };
    return { item, update };
  };
  const show = (state) => {
    const counts = Object.entries(state.counts).filter(([, n]) => n).map(([word, n]) => `${n} ${word}`);
    say(summary, counts.join(", ") || `No runs yet in ${state.where}. They appear here when they start, for example with dgdmn run embedded.`);
    say(problem, state.problem);
    const seen = new Set();
    for (const kind of Object.keys(TEXT)) {
      for (const run of state[kind]) {
        const key = `${kind} ${run.id}`;
        seen.add(key);
        if (!cards.has(key)) cards.set(key, makeCard(kind));
        cards.get(key).update(run);
      }
    }
    for (const [key, card] of cards) if (!seen.has(key)) { card.item.remove(); cards.delete(key); }
  };

  // The report's own script remembers choices and focus by name. A chart has no name and is found by its position.
  const replaceReport = async () => {
    const answer = await fetch("/report", { cache: "no-store" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("report"), { scrollX, scrollY } = window;
    const charts = () => [...report.querySelectorAll("svg[tabindex], .scroll[tabindex]")];
    const position = charts().indexOf(document.activeElement);
    report.replaceChildren(...fresh.childNodes);
    report.dataset.version = fresh.dataset.version;
    document.title = page.title;
    document.querySelector("header").replaceWith(page.querySelector("header"));
    window.dgdmnReport.init();
    if (position >= 0) charts()[position]?.focus({ preventScroll: true });
    window.scrollTo({ left: scrollX, top: scrollY, behavior: "instant" });
  };

  const ask = async () => {
    try {
      const state = await (await fetch("/state", { cache: "no-store" })).json();
      show(state);
      if (String(state.version) !== report.dataset.version) await replaceReport();
    } catch {
      say(problem, "The server has stopped. This page no longer changes.");
    }
    setTimeout(ask, document.hidden ? HIDDEN : EVERY);
  };
  ask();
})();
