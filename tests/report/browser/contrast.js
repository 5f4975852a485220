// Every visible text whose contrast with what lies under it is below a limit (WCAG 2: 4.5 for text of any size).
(limit) => {
  const rgba = (text) => {
    const match = /^rgba?\(([\d.]+)[, ]+([\d.]+)[, ]+([\d.]+)(?:[,/ ]+([\d.]+))?\)$/.exec(text);
    if (!match) throw new Error(`a color that cannot be read: ${text}`);
    return [Number(match[1]), Number(match[2]), Number(match[3]), match[4] === undefined ? 1 : Number(match[4])];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
  const luminance = (color) => {
    const [r, g, b] = color.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ancestors = (node) => {
    const all = [];
    for (let at = node; at; at = at.parentElement) all.push(at);
    return all;
  };
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const under = (node) => ancestors(node).reverse().reduce(
    (color, at) => over(rgba(getComputedStyle(at).backgroundColor), color), dark ? [18, 18, 18] : [255, 255, 255]);
  const faint = (node) => ancestors(node).reduce((product, at) => product * Number(getComputedStyle(at).opacity), 1);

  const found = [];
  let checked = 0;
  for (const node of document.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
    if (!(own || node.matches("select")) || node.closest("script, style, option, title, desc")) continue;
    const box = node.getBoundingClientRect();
    if (!node.checkVisibility({ visibilityProperty: true }) || box.width < 2 || box.height < 2) continue;
    const style = getComputedStyle(node), svg = node instanceof SVGElement;
    const ink = rgba(svg ? style.fill : style.color), ground = under(node);
    ink[3] *= faint(node) * (svg ? Number(style.fillOpacity) : 1);
    const [a, b] = [luminance(over(ink, ground)), luminance(ground)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    checked += 1;
    if (contrast < limit) found.push(`${contrast.toFixed(2)} <${node.tagName} class="${node.getAttribute("class")}"> ${node.textContent.trim().slice(0, 40)}`);
  }
  return { checked, found };
}
