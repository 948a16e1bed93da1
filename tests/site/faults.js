// What is wrong with a page as the browser shows it: each function names the places.

window.faults = (() => {
  const shown = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const named = (node) => `${node.localName}.${node.className}: ${node.textContent.trim().slice(0, 60)}`;
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);

  // Red, green and blue from 0 to 255, and alpha.
  const channels = (color) => {
    const [r, g, b, alpha = 1] = color.match(/[\d.]+/g).map(Number);
    return color.startsWith("color(") ? [r * 255, g * 255, b * 255, alpha] : [r, g, b, alpha];
  };
  const over = ([r, g, b, alpha], ground) => [r, g, b].map((x, i) => alpha * x + (1 - alpha) * ground[i]);
  const luminance = (color) => {
    const [r, g, b] = color.map((x) => (x <= 10.3 ? x / 3294.6 : ((x / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };

  return {
    // Pictures that are missing or can't be drawn.
    async pictures() {
      const drawn = await Promise.allSettled([...document.images].map((image) => image.decode()));
      return [...document.images].filter((_, i) => drawn[i].status === "rejected").map((image) => image.src);
    },

    // What is wider than its place, so that it is cut or the page is scrolled sideways. Code and tables have frames of
    // their own, which may be.
    sideways() {
      const frames = "pre, .table-wrapper, .visually-hidden, input";
      const clips = (node) =>
        node === document.documentElement || (getComputedStyle(node).overflowX !== "visible" && !node.matches(frames));
      return all("*").filter((node) => node.scrollWidth > node.clientWidth + 1 && clips(node)).map(named);
    },

    // Cells whose text is cut, small, or has a word or two on each line.
    tables() {
      const unreadable = (cell) => {
        const size = parseFloat(getComputedStyle(cell).fontSize);
        const narrow = cell.innerText.length > 40 && cell.clientWidth < 9 * size;
        return narrow || size < 12 || cell.scrollWidth > cell.clientWidth + 1;
      };
      return all("article td, article th").filter(unreadable).map(named);
    },

    // Text that differs too little from its ground: by less than 4.5 to 1, as WCAG 2 counts it.
    faint() {
      const grounds = new Map();
      const ground = (node) => {
        if (!node) return [255, 255, 255];
        if (!grounds.has(node)) {
          const color = channels(getComputedStyle(node).backgroundColor);
          grounds.set(node, over(color, color[3] < 1 ? ground(node.parentElement) : color));
        }
        return grounds.get(node);
      };
      const faint = new Set();
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) {
        const node = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !shown(node) || node.closest("svg")) continue;
        const behind = ground(node);
        const color = over(channels(getComputedStyle(node).color), behind);
        const [dark, light] = [luminance(color), luminance(behind)].sort((a, b) => a - b);
        if ((light + 0.05) / (dark + 0.05) < 4.5) faint.add(`${color.map(Math.round)} on ${behind.map(Math.round)}: ${named(node)}`);
      }
      return [...faint];
    },

    // Language and text of each block of code, as its button copies it; null where it copies nothing.
    copied() {
      const taken = [];
      const take = ({ target }) => taken.push(target.value.slice(target.selectionStart, target.selectionEnd));
      document.addEventListener("copy", take, true);
      const copied = [...document.querySelectorAll("div.highlight")].map((block) => {
        taken.length = 0;
        block.querySelector("button.copybtn")?.click();
        return [block.closest("[class*=highlight-]").className.match(/highlight-(\S+)/)[1], taken[0] ?? null];
      });
      document.removeEventListener("copy", take, true);
      return copied;
    },

    // Whether what the keyboard is at can be seen, when all that moves has stopped.
    async focused() {
      await Promise.all(document.getAnimations().map((each) => each.finished));
      const { left, right, top, bottom } = document.activeElement.getBoundingClientRect();
      const inside = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight && left < right;
      return inside && shown(document.activeElement) && getComputedStyle(document.activeElement).opacity > 0.5;
    },
  };
})();
