// Follows runs: asks for their state every second, and for the report again when that has changed.
// Everything that comes from a run is put in as text. Only the page that the server drew replaces a part of this one.
(() => {
  "use strict";

  const EVERY = 1000, HIDDEN = 10000;
  const panel = document.getElementById("live"), report = document.getElementById("report");
  const CSS = `
    #live { margin: 0 0 1.5rem; }
    #live p { margin: .15rem 0; font-size: .88rem; color: var(--muted); }
    #live .live-summary { font-size: 1rem; color: var(--text); }
    #live .live-trouble:not(:empty) { color: var(--text); border-left: 3px solid var(--accent); padding-left: .7rem; }
    #live ul { list-style: none; margin: .6rem 0 0; padding: 0; display: grid; gap: .8rem; align-items: start;
      grid-template-columns: repeat(auto-fill, minmax(min(24rem, 100%), 1fr)); }
    #live li { overflow-wrap: anywhere; padding: .7rem .9rem; border: 1px solid var(--line); border-radius: .5rem;
      background: var(--surface); }
    #live progress { display: block; width: 100%; height: .6rem; margin: .4rem 0; accent-color: var(--accent); }
    #live .live-dreams { width: 100%; max-width: 29rem; height: auto; margin-top: .5rem; }
    #live .live-dreams[hidden] { display: none; }
    #live code { user-select: all; padding: 0; }
    @media print { #live { display: none; } }`;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(CSS);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];

  const element = (tag, parent, name = "") => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    parent.append(made);
    return made;
  };
  const say = (where, text) => { if (where.textContent !== text) where.textContent = text; };
  const percent = (share) => `${Math.floor(100 * share)} %`;
  const duration = (seconds) => {
    if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
    return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
  };
  const left = (ends) => {  // nothing where nobody can say, or where the guess has been overtaken
    const seconds = ends === null ? 0 : ends - Date.now() / 1000;
    return seconds > 0 ? `, about ${duration(seconds)} left` : "";
  };

  const summary = element("p", panel, "live-summary");
  summary.setAttribute("role", "status");  // said aloud when the counts change, not at every step of a bar
  const trouble = element("p", panel, "live-trouble");
  const list = element("ul", panel, "live-runs");
  const cards = new Map();

  // As data, because the page's policy allows pictures from nowhere else.
  const picture = async (image, address) => {
    const answer = await fetch(address).catch(() => null);
    image.hidden = !answer?.ok;
    if (image.hidden) return;
    const reader = new FileReader();
    reader.addEventListener("load", () => { image.src = reader.result; });
    reader.readAsDataURL(await answer.blob());
  };
  const running = (item) => {
    const name = element("strong", item), bar = element("progress", item), now = element("p", item, "live-now");
    const doing = element("p", item, "live-doing"), image = element("img", item, "live-dreams");
    let shown = "";
    image.hidden = true;
    return (run) => {
      say(name, run.name);
      bar.max = 1;
      bar.value = run.share;
      bar.setAttribute("aria-label", `${run.name}, share of the work done`);
      const seen = run.accuracy === null ? "" : `; accuracy on tasks seen ${run.accuracy.toFixed(3)}`;
      say(now, `${percent(run.share)} done${left(run.ends)}, ${duration(run.seconds)} so far; `
        + `task ${run.step} of ${run.steps}${seen}`);
      say(doing, run.doing + (run.epochs ? left(run.phase_ends) : ""));
      image.alt = `newest dreams of ${run.name}`;
      if (run.dreams !== shown) picture(image, shown = run.dreams);
    };
  };
  const stopped = (item) => {
    const name = element("strong", item), now = element("p", item, "live-now"), how = element("p", item);
    how.append("Go on with it: ");
    const command = element("code", how);
    return (run) => {
      say(name, run.name);
      say(now, `stopped at ${percent(run.share)}, ${run.evaluated} of ${run.steps} tasks tested`);
      say(command, run.command);
    };
  };
  const broken = (item) => {
    const name = element("strong", item), why = element("p", item, "live-now");
    return (run) => { say(name, run.name); say(why, `cannot be read: ${run.problem}`); };
  };
  const KINDS = { running, stopped, broken };

  const show = (state) => {
    const { counts } = state, words = ["running", "stopped", "done", "broken"];
    const told = words.filter((word) => counts[word]).map((word) => `${counts[word]} ${word}`);
    say(summary, told.join(", ") || "No runs yet: they appear here when they start.");
    say(trouble, state.problem);
    const seen = new Set();
    for (const kind of Object.keys(KINDS)) {
      for (const run of state[kind]) {
        const key = `${kind} ${run.key || run.name}`;
        seen.add(key);
        if (!cards.has(key)) {
          const item = element("li", list);
          item.dataset.state = kind;
          cards.set(key, { item, update: KINDS[kind](item) });
        }
        cards.get(key).update(run);
      }
    }
    for (const [key, card] of cards) {
      if (!seen.has(key)) { card.item.remove(); cards.delete(key); }
    }
  };

  // The report's own script remembers what was chosen and focused by name. What has no name is found by its place.
  const place = (node) => {
    const steps = [];
    for (let at = node; at !== report; at = at.parentElement) steps.unshift([...at.parentElement.children].indexOf(at));
    return steps;
  };
  const found = (steps) => steps.reduce((node, step) => node?.children[step], report);
  const renew = async () => {
    const answer = await fetch("/report", { cache: "no-store" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("report"), { scrollX, scrollY } = window, { activeElement } = document;
    const focus = report.contains(activeElement) && activeElement !== report ? place(activeElement) : null;
    report.replaceChildren(...fresh.childNodes);
    report.dataset.version = fresh.dataset.version;
    document.title = page.title;
    document.querySelector("header").replaceWith(page.querySelector("header"));
    window.dgdmnReport.init();
    if (focus && document.activeElement === document.body) found(focus)?.focus({ preventScroll: true });
    window.scrollTo({ left: scrollX, top: scrollY, behavior: "instant" });
  };

  let tag = "", state = null;
  const ask = async () => {
    try {
      const answer = await fetch("/state", { cache: "no-store", headers: tag ? { "If-None-Match": tag } : {} });
      if (answer.status === 200) {
        state = await answer.json();
        tag = answer.headers.get("ETag") || "";
      }
      if (state) show(state);
      if (state && String(state.version) !== report.dataset.version) await renew();
    } catch {
      say(trouble, "The watch has ended: this page no longer changes.");
      tag = "";
    }
    setTimeout(ask, document.hidden ? HIDDEN : EVERY);
  };
  document.addEventListener("visibilitychange", () => { if (state && !document.hidden) show(state); });
  ask();
})();
