/** Reads the CPU profiles that `node --cpu-prof` writes. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: {
      readonly functionName: string;
      readonly url: string;
      readonly lineNumber: number;
    };
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const FUNCTIONS_SHOWN = 30;

/** Prints, for each profile in a folder, the functions with the most time of their own. */
export function printProfiles(folder: string): void {
  for (const file of readdirSync(folder)) {
    if (!file.endsWith('.cpuprofile')) continue;
    console.log(`\n${join(folder, file)}`);
    const profile = JSON.parse(readFileSync(join(folder, file), 'utf8')) as Profile;
    const own = ownTimes(profile);
    const idle = own.get('(idle)') ?? 0;
    own.delete('(idle)');
    own.delete('(program)');
    const busy = [...own.values()].reduce((sum, time) => sum + time, 0);
    console.log(`busy ${(busy / 1e6).toFixed(1)} s, idle ${(idle / 1e6).toFixed(1)} s`);
    const top = [...own].sort(([, a], [, b]) => b - a).slice(0, FUNCTIONS_SHOWN);
    for (const [name, time] of top) {
      console.log(`${((100 * time) / busy).toFixed(1).padStart(6)} %  ${name}`);
    }
  }
}

/** Microseconds that each function ran itself, not what it called. */
function ownTimes({ nodes, samples, timeDeltas }: Profile): Map<string, number> {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const names = new Map(
    nodes.map(({ id, callFrame: { functionName, url, lineNumber } }) => {
      const file = url.startsWith('file:') ? relative(resolve(root), fileURLToPath(url)) : url;
      const place = file === '' ? '' : ` ${file}:${lineNumber + 1}`;
      return [id, `${functionName || '(anonymous)'}${place}`];
    }),
  );
  const own = new Map<string, number>();
  for (const [index, sample] of samples.entries()) {
    const name = names.get(sample) ?? '(unknown)';
    own.set(name, (own.get(name) ?? 0) + (timeDeltas[index] ?? 0));
  }
  return own;
}
