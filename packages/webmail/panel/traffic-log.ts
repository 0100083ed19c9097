/** The log of what the app and the server say to each other: the newest entries, each cut to a length. */
import type { TrafficEvent } from '../../sdk/src/mail/client.ts';

export interface TrafficEntry {
  readonly id: number;
  readonly event: Omit<TrafficEvent, 'body'>;
  /** Laid out to be read; empty where there is none. */
  readonly text: string;
}

/** How many entries are kept: some minutes of use. */
const ENTRIES_MAX = 200;
/** Characters of one body, and of all: 100 bodies of mail would be hundreds of megabytes. */
const TEXT_MAX = 20_000;
const TEXTS_MAX = 1_000_000;
/** Members that grant access. The client leaves them out; a mistake there must not put them on the screen. */
const SECRET = /"(password|token|secret|authorization)":\s*"(?:[^"\\]|\\.)*"/gi;

/** The entries, with one more; the oldest go where there are too many. Heartbeats are left out: in a quiet hour all would be. */
export function addTraffic(
  entries: readonly TrafficEntry[],
  { body, ...event }: TrafficEvent,
): readonly TrafficEntry[] {
  if (event.title === 'heartbeat') return entries;
  const entry = { id: (entries.at(-1)?.id ?? 0) + 1, event, text: layOut(body) };
  const kept = [...entries, entry].slice(-ENTRIES_MAX);
  let size = kept.reduce((sum, { text }) => sum + text.length, 0);
  let from = 0;
  for (; size > TEXTS_MAX && from < kept.length - 1; from++) size -= kept[from]?.text.length ?? 0;
  return kept.slice(from);
}

function layOut(body: unknown): string {
  if (body === undefined || body === null || body === '') return '';
  const text = typeof body === 'string' ? body : (JSON.stringify(body, undefined, 2) ?? '');
  // Struck out before the text is cut: half a secret would not be found. Sync tokens grant nothing, and are of use here.
  const clean = text.replace(SECRET, (member, name: string) =>
    name.toLowerCase() === 'token' && !/"eyJ/.test(member) ? member : `"${name}": "•••"`,
  );
  if (clean.length <= TEXT_MAX) return clean;
  return `${clean.slice(0, TEXT_MAX)}\n… ${clean.length - TEXT_MAX} more characters`;
}

/** What goes wrong stands out: an answer of 400 and above. */
export function isFailure({ direction, title }: TrafficEntry['event']): boolean {
  return direction === 'received' && /^(?:[45]\d\d\b|no answer)/.test(title);
}
