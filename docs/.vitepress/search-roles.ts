/**
 * Gives VitePress's search box the roles that it has: a dialog with a combobox and a list of options
 * (https://www.w3.org/WAI/ARIA/apg/patterns/combobox/). As it comes, it is a button with all of that
 * inside, and each option a list item around a link.
 */
const changes: readonly (readonly [from: string, to: string])[] = [
  [
    `role="button"
      :aria-owns="results?.length ? 'localsearch-list' : undefined"
      aria-expanded="true"
      aria-haspopup="listbox"
      aria-labelledby="localsearch-label"`,
    `role="dialog" aria-modal="true" aria-labelledby="localsearch-label"`,
  ],
  [
    `aria-autocomplete="both"`,
    `role="combobox" aria-haspopup="listbox" :aria-expanded="results?.length ? 'true' : 'false'" aria-autocomplete="list"`,
  ],
  [
    `:id="'localsearch-item-' + index"
            :aria-selected="selectedIndex === index ? 'true' : 'false'"
            role="option"`,
    `role="presentation"`,
  ],
  [
    `:aria-label="[...p.titles, p.title].join(' > ')"`,
    `:id="'localsearch-item-' + index" :aria-selected="selectedIndex === index ? 'true' : 'false'" role="option"`,
  ],
  // A label is for what has a role.
  [`<kbd :aria-label=`, `<kbd role="img" :aria-label=`],
];

/** A plugin of Vite; it fails where VitePress has changed the box, so that somebody looks. */
export const searchRoles = {
  name: 'postroom:search-roles',
  enforce: 'pre' as const,
  transform(code: string, id: string): string | undefined {
    if (!id.endsWith('/VPLocalSearchBox.vue')) return undefined;
    return changes.reduce((changed, [from, to]) => {
      if (!changed.includes(from)) throw new Error(`the search box has no ${from}`);
      return changed.replaceAll(from, to);
    }, code);
  },
};
