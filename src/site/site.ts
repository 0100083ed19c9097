/**
 * The documentation site: which build of it is served, and the process that makes one when the
 * sources in `docs/` have changed.
 *
 * In storage: `site/<hash>/` in the data folder (made by a start) or beside the sources (made by
 * `npm run docs:build`, for installations that are read-only). The name is a hash over all that the
 * build is made from, so that a build is either there whole under its name or not at all, and two
 * processes that build at once make the same folder: the first to rename its own wins.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import { clearWork, findBuild, newestBuild } from './builds.ts';
import { hashSources, type SourceFolder } from './sources.ts';

export { buildSite } from './build-site.ts';
export { defaultSources } from './sources.ts';

/** What there is to show. */
export type SiteState =
  | {
      readonly kind: 'built';
      /** Absolute path of the folder that lies below `/docs/`. */
      readonly directory: string;
      /** CSP sources (`'sha256-...'`) of the scripts that stand in its pages. */
      readonly scripts: readonly string[];
    }
  | { readonly kind: 'building' | 'failed' | 'absent' };

export interface Site {
  /** What is shown now; a new build is shown once it is there. */
  state(): SiteState;
  /** Looks for a build of the sources as they are, and makes one in the background if there is none. */
  start(): void;
  /** Ends the process that builds, if one does. */
  stop(): Promise<void>;
}

export interface SiteOptions {
  readonly sources: SourceFolder;
  /** Absolute path of a folder for builds of our own, made when needed. */
  readonly directory: string;
  /** Whether to build when there is none; else an older one or none is shown. */
  readonly build: boolean;
  readonly logger: Logger;
}

/** A build takes seconds; one that takes longer than this will never end. */
const BUILD_WITHIN_MS = 600_000;
/** How much of what a failed build wrote goes to the log, in characters. */
const KEPT_OUTPUT = 4_000;

const program = fileURLToPath(new URL('./build-program.ts', import.meta.url));

/** The site of one service; nothing happens before its start. */
export function createSite(options: SiteOptions): Site {
  const { sources, directory, logger } = options;
  const folders = [sources.builds, directory];
  let state: SiteState = { kind: 'absent' };
  let child: ChildProcess | undefined;
  let stopping = false;

  async function build(): Promise<void> {
    const start = performance.now();
    logger.info({ directory }, 'building the documentation in the background');
    const failure = await runBuild();
    if (stopping) return;
    // If the sources changed meanwhile, that is the build of what they were at its start.
    const built = newestBuild(folders);
    if (built) state = { kind: 'built', ...built };
    else state = { kind: 'failed' };
    if (failure === undefined) {
      logger.info({ ms: Math.round(performance.now() - start) }, 'documentation built');
    } else {
      logger.error({ output: failure }, 'documentation could not be built');
    }
  }

  /** The end of what a failed build wrote; undefined when it went well. */
  async function runBuild(): Promise<string | undefined> {
    let output = '';
    child = spawn(process.execPath, [program, directory], {
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: BUILD_WITHIN_MS,
      killSignal: 'SIGKILL',
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        output = (output + text).slice(-KEPT_OUTPUT);
      });
    }
    try {
      if (child.pid !== undefined) yieldTo(child.pid);
      const [code] = await once(child, 'close');
      return code === 0 ? undefined : output || `ended with ${code ?? child.signalCode}`;
    } catch (error) {
      return String(error);
    } finally {
      child = undefined;
    }
  }

  return {
    state: () => state,
    start() {
      const hash = nameOf(sources, logger);
      const fresh = hash === undefined ? undefined : findBuild(folders, hash);
      const shown = fresh ?? newestBuild(folders);
      if (shown) state = { kind: 'built', ...shown };
      if (fresh || hash === undefined || !options.build) return;
      if (!shown) state = { kind: 'building' };
      void build();
    },
    async stop() {
      stopping = true;
      const running = child;
      if (!running) return;
      const closed = once(running, 'close');
      running.kill('SIGTERM');
      await closed;
      if (running.pid !== undefined) await clearWork(directory, running.pid);
    },
  };
}

/** The name of the build; undefined where the sources are not there to build from. */
function nameOf(sources: SourceFolder, logger: Logger): string | undefined {
  try {
    return hashSources(sources);
  } catch (error) {
    logger.warn({ err: error }, 'sources of the documentation cannot be read');
    return undefined;
  }
}

/** Lets a process have what others leave of the machine. */
function yieldTo(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW);
  } catch {
    // It has ended already, or the platform has no priorities: then it builds as it is.
  }
}

/** Where a service keeps its builds. */
export function siteDirectory(dataDir: string): string {
  return join(dataDir, 'site');
}
