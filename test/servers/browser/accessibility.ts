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

/** What axe-core looks at: all, all but the contrast of colours, or that alone, which takes most of the time. */
type Look = 'all' | 'structure' | 'contrast';

const OPTIONS: Record<Look, object> = {
  all: {},
  structure: { rules: { 'color-contrast': { enabled: false } } },
  contrast: { runOnly: ['color-contrast'] },
};

/** Violations that are serious or critical, a line each. */
export async function findViolations(page: Page, look: Look = 'all'): Promise<string[]> {
  // Not as a script of the page, which its policy would refuse. It takes a second to read on a busy machine.
  if (await page.evaluate('typeof axe === "undefined"')) await page.evaluate(axeSource);
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
