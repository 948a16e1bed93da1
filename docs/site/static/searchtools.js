// The search of the site, in place of Sphinx's: any word may be missing from a page, and the best pages come first.
// It works without a server. search_index.py writes the index, and has computed all that can be known without the query.

const Search = {
  setIndex(index) {
    Search.index = index;
    if (typeof document !== "undefined") Search.show();
  },

  // As `words` in search_index.py: an identifier is found whole and by its parts.
  words(text) {
    const stemmer = new Stemmer();
    const found = [];
    for (const [name] of text.matchAll(/\w+/g)) {
      const parts = name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g) || [];
      for (const word of new Set([name, ...parts])) found.push(stemmer.stemWord(word.toLowerCase()));
    }
    return found;
  },

  // The word on most pages that a misspelled one differs from by one letter, or by two that changed places.
  meant(word) {
    const { terms } = Search.index;
    const near = (other) => {
      let same = 0;
      while (same < word.length && word[same] === other[same]) same++;
      const [a, b] = [word.slice(same), other.slice(same)];
      const swapped = a.length > 1 && a[1] + a[0] + a.slice(2) === b;
      return a.slice(1) === b || a === b.slice(1) || a.slice(1) === b.slice(1) || swapped;
    };
    const pages = (other) => terms[other][0].length;
    if (word.length < 4) return undefined;
    return Object.keys(terms).filter(near).sort((a, b) => pages(b) - pages(a))[0];
  },

  // The best page first, each with its best section: {url, title, section}.
  rank(query) {
    const { pages, sections, terms } = Search.index;
    const ofPage = new Map();
    const ofSection = new Map();
    const add = (scores, place, score) => scores.set(place, (scores.get(place) || 0) + score);
    const asked = query.replace(/\b(migrat|port(?=ing|ed))\w*/gi, "moving"); // as the titles of these pages say
    const said = asked.split(/\s+/).filter((word) => !stopwords.has(word.toLowerCase()));
    for (const word of new Set(Search.words(said.join(" ") || asked))) {
      const [inPages, inSections] = terms[Object.hasOwn(terms, word) ? word : Search.meant(word)] || [[], []];
      for (const [page, score] of inPages) add(ofPage, page, score);
      for (const [section, score] of inSections) add(ofSection, section, score);
    }
    const best = new Map();
    for (const [section, score] of ofSection) {
      const page = sections[section][0];
      if (!best.has(page) || score > best.get(page).score) best.set(page, { section, score });
    }
    for (const [page, { score }] of best) add(ofPage, page, score);
    return [...ofPage.entries()]
      .sort(([a, x], [b, y]) => y - x || a - b)
      .map(([page]) => {
        const [url, title] = pages[page];
        const [, anchor, section] = best.has(page) ? sections[best.get(page).section] : [page, "", title];
        return { url: url + (anchor && `#${anchor}`), title, section };
      });
  },

  show() {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const results = document.getElementById("search-results");
    for (const input of document.querySelectorAll("input[name=q]")) input.value = query;
    if (!results || !query) return;
    const found = Search.rank(query).slice(0, 30);
    const heading = document.createElement("h2");
    heading.textContent = found.length ? `Pages about “${query}”` : `No page has a word of “${query}”`;
    const list = document.createElement("ul");
    for (const { url, title, section } of found) {
      const link = document.createElement("a");
      link.href = url;
      link.textContent = title;
      const item = document.createElement("li");
      item.append(link, section && section !== title ? `: ${section}` : "");
      list.append(item);
    }
    results.replaceChildren(heading, list);
  },
};
