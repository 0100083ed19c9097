/** What keeps somebody from using a page as it is now, by axe-core. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const axeSource = readFileSync(
  createRequire(import.meta.url).resolve('axe-core/axe.min.js'),
  'utf8',
);

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** What axe-core looks at: all, all but the contrast of colours, or that alone. */
type Look = 'all' | 'structure' | 'contrast';

/** Rules that find nothing worse than moderate, and take a sixth of the time of all. */
const MODERATE = [
  'aria-allowed-role',
  'empty-heading',
  'empty-table-header',
  'heading-order',
  'landmark-banner-is-top-level',
  'landmark-contentinfo-is-top-level',
  'landmark-main-is-top-level',
  'landmark-one-main',
  'landmark-unique',
  'page-has-heading-one',
  'presentation-role-conflict',
  'region',
  'scope-attr-valid',
];

const without = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, { enabled: false }]));

const OPTIONS: Record<Look, object> = {
  all: { rules: without(...MODERATE) },
  structure: { rules: without(...MODERATE, 'color-contrast') },
  contrast: { runOnly: ['color-contrast'] },
};

/** What the contrast of a text depends on, of all texts of all pages that were looked at. */
const seen = new Set<string>();

/**
 * Marks one text of each kind that was not seen: the contrast of one takes longer than all other rules, and pages have
 * thousands that are alike. @returns the new kinds
 */
const markUnseen = (known: readonly string[]) => `{
  const known = new Set(${JSON.stringify(known)});
  const behind = (element) => {
    if (!element) return '';
    const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
    const ground = [backgroundColor, backgroundImage, opacity].join();
    // One that is not seen changes no contrast.
    return (ground === 'rgba(0, 0, 0, 0),none,1' ? '' : ground + ';') + behind(element.parentElement);
  };
  const hasText = ({ childNodes }) => [...childNodes].some(({ nodeType, data }) => nodeType === 3 && data.trim());
  const fresh = [];
  for (const element of document.querySelectorAll('body *')) {
    element.removeAttribute('data-look');
    if (!hasText(element) && !element.matches('input, select, textarea')) continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const { color, fontSize, fontWeight, textShadow } = getComputedStyle(element);
    const look = [color, fontSize, fontWeight, textShadow, element.matches(':disabled')] + behind(element);
    if (known.has(look)) continue;
    known.add(look);
    fresh.push(look);
    element.setAttribute('data-look', '');
  }
  fresh;
}`;

/** Violations that are serious or critical, a line each. */
export async function findViolations(page: Page, look: Look = 'all'): Promise<string[]> {
  // What is loaded anew is pale until it is there.
  await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
  // Not as a script of the page, which its policy would refuse. It takes a second to read on a busy machine.
  if (await page.evaluate('typeof axe === "undefined"')) {
    await page.evaluate(axeSource);
    await page.evaluate(
      `axe.configure({ rules: [{ id: 'color-contrast', selector: '[data-look]' }] })`,
    );
  }
  if (look !== 'structure') {
    const fresh = await page.evaluate<string[]>(markUnseen([...seen]));
    for (const kind of fresh) seen.add(kind);
    if (fresh.length === 0 && look === 'contrast') return [];
  }
  const options = { resultTypes: ['violations'], ...OPTIONS[look] };
  const found = await page.evaluate<Violation[]>(
    `axe.run(${JSON.stringify(options)}).then(({ violations }) => violations)`,
  );
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0]?.html} ${nodes[0]?.failureSummary}`,
    );
}
