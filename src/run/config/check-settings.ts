/** What settings say together, and what was meant by names that are none. */
import { problemLine, SettingRefused } from './config-error.ts';

/** A port that Postroom is to listen on, and the setting that says so. */
interface OwnPort {
  readonly key: string;
  readonly host: string;
  /** 0: it does not listen, or the system chooses. */
  readonly port: number;
}

/** @throws SettingRefused where one address is to be listened on twice */
export function refuseSharedPorts(ports: readonly OwnPort[]): void {
  const seen = new Map<string, string>();
  const lines = ports.flatMap(({ key, host, port }) => {
    const first = seen.get(`${host} ${port}`);
    seen.set(`${host} ${port}`, key);
    if (port === 0 || first === undefined) return [];
    return [problemLine(key, 'a port of its own', `${port}, which ${first} has`)];
  });
  if (lines.length > 0) throw new SettingRefused(lines);
}

/** Names that are no setting but nearly one: `IMAP_PORTS is no setting: did you mean IMAP_PORT?`. */
export function findMisspelt(names: readonly string[], known: readonly string[]): string[] {
  return names.flatMap((name) => {
    if (known.includes(name)) return [];
    const meant = known.find((one) => distance(name.toUpperCase(), one) <= nearOf(one));
    return meant === undefined ? [] : [`${name} is no setting: did you mean ${meant}?`];
  });
}

/** Letters that a slip adds, leaves out or exchanges; in a short name two make another word: HOST, HOME; MX_PORT, DB_PORT. */
const NEAR = 2;
const nearOf = (name: string) => (name.length > 8 ? NEAR : 1);
/** Of a name; a longer one is no slip. */
const NAME_MAX = 40;

/** How many letters have to be added, removed or replaced (Levenshtein). */
function distance(one: string, other: string): number {
  if (one.length > NAME_MAX || Math.abs(one.length - other.length) > NEAR) return NAME_MAX;
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (const [at, letter] of [...one].entries()) {
    const next = [at + 1];
    for (const [to, wanted] of [...other].entries()) {
      const replaced = (row[to] ?? 0) + Number(letter !== wanted);
      next.push(Math.min((row[to + 1] ?? 0) + 1, (next[to] ?? 0) + 1, replaced));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
