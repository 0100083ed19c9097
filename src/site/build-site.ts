/**
 * Builds the site: a copy of the sources, VitePress over it, then what VitePress leaves to do.
 */
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { clearAway, findBuild, publish, workPrefix } from './builds.ts';
import { compressFiles } from './compress-files.ts';
import { hashInbox } from './hash-inbox.ts';
import { collectScripts } from './inline-scripts.ts';
import { hashSources, listSources, type SourceFolder } from './sources.ts';

/**
 * Builds the site unless a build of the sources as they are is there.
 *
 * @param folder absolute path of the folder that builds lie in, made when needed
 * @returns absolute path of the build
 */
export async function buildSite(sources: SourceFolder, folder: string): Promise<string> {
  const built = findBuild([folder], hashSources(sources));
  if (built) return built.directory;
  await mkdir(folder, { recursive: true });
  const work = await mkdtemp(workPrefix(folder, process.pid));
  try {
    const root = join(work, 'sources');
    const output = join(work, 'site');
    await copySources(sources.root, root);
    // Of the copy: the sources may be written to while they are built.
    const hash = hashSources({ root });
    await generate(join(root, 'docs'), output);
    await hashInbox(output);
    const scripts = await collectScripts(output);
    await compressFiles(output);
    const directory = await publish(output, folder, hash, scripts);
    await clearAway(folder, hash);
    return directory;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * The installation may be read-only, and VitePress writes beside what it reads. Contents alone are
 * copied: folders that may not be written to would stay so.
 */
async function copySources(from: string, to: string): Promise<void> {
  for (const name of listSources(from)) {
    await mkdir(dirname(join(to, name)), { recursive: true });
    await writeFile(join(to, name), await readFile(join(from, name)));
  }
  await symlink(join(from, 'node_modules'), join(to, 'node_modules'), 'junction');
}

async function generate(docs: string, outDir: string): Promise<void> {
  // Loaded here: the service, which imports this folder, has no use for a bundler.
  const { build } = await import('vitepress');
  await build(docs, { outDir });
}
