/** The pages of the API reference, and their samples. */
import { globSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeReference } from '../../docs/.vitepress/reference/pages.ts';
import { SAMPLE_ADDRESS } from '../../docs/.vitepress/reference/sample-address.ts';

/** Makes the pages anew. @returns their markdown */
export async function readReference(): Promise<string[]> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-reference-'));
  writeReference(directory);
  const paths = globSync(join(directory, 'reference/api/*.md'));
  const pages = await Promise.all(paths.map((path) => readFile(path, 'utf8')));
  await rm(directory, { recursive: true });
  return pages;
}

/**
 * Reads the samples in a language, which ask a service. The one that follows events waits for none: nothing happens to its user.
 *
 * @param mark what the fence of each says, such as `js [JavaScript]`
 */
export function readSamples(pages: readonly string[], mark: string, serviceUrl: string): string[] {
  const blocks = pages.flatMap((page) => page.split(`\n\`\`\`${mark}\n`).slice(1));
  return blocks.map((block) =>
    block
      .slice(0, block.indexOf('\n```\n'))
      .replace(/\/v2\/events\?[\w=&]+/, '$&&wait=0')
      .replaceAll(SAMPLE_ADDRESS, serviceUrl),
  );
}
