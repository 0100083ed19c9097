/**
 * Lets the page of the live inbox load its scripts and styles from a folder named after their
 * content. A page is some twenty files, which are then kept by the browser and not charged to its
 * rate limit. The files stay where they were too, to be read.
 */
import { createHash } from 'node:crypto';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listFiles } from './sources.ts';

const loaded = /\.(?:js|css)$/;

/** Copies the files and changes the paths in `inbox/index.html`; they name each other relatively. */
export async function hashInbox(site: string): Promise<void> {
  const inbox = join(site, 'inbox');
  const names = listFiles(site)
    .filter((name) => name.startsWith('inbox/') && loaded.test(name))
    .map((name) => name.slice('inbox/'.length));
  if (names.length === 0) return;
  const hash = createHash('sha256');
  for (const name of names) {
    const content = await readFile(join(inbox, name));
    hash.update(`${name}\0${content.length}\0`).update(content);
  }
  const folder = `assets/inbox.${hash.digest('hex').slice(0, 16)}`;
  for (const name of names) {
    // Makes the folders that it needs.
    await cp(join(inbox, name), join(site, folder, name));
  }
  const page = join(inbox, 'index.html');
  const html = await readFile(page, 'utf8');
  await writeFile(
    page,
    html.replace(/"\/docs\/inbox\/([\w./-]+\.(?:js|css))"/g, `"/docs/${folder}/$1"`),
  );
}
