/** What FETCH asks for (RFC 9051 section 6.4.5, RFC 7162 section 3.1.4). */
import { BadCommand, type Cursor } from './cursor.ts';
import { type PartialRange, readPartialRange } from './partial.ts';
import { BINARY, type BinaryItem, readBinary, readSection, type Section } from './sections.ts';

export type FetchItem =
  | {
      readonly kind:
        | 'UID'
        | 'FLAGS'
        | 'INTERNALDATE'
        | 'RFC822.SIZE'
        | 'ENVELOPE'
        | 'BODY'
        | 'BODYSTRUCTURE'
        | 'MODSEQ'
        | 'SAVEDATE'
        | 'EMAILID'
        | 'THREADID'
        | 'PREVIEW';
    }
  | { readonly kind: 'section'; readonly section: Section; readonly marksSeen: boolean }
  | BinaryItem;

export interface FetchRequest {
  readonly items: readonly FetchItem[];
  /** Only messages that changed since. */
  readonly changedSince: number | undefined;
  /** Removed messages are told, too. */
  readonly vanished: boolean;
  /** Only these of the messages that are named (RFC 9394). */
  readonly partial: PartialRange | undefined;
}

const ITEMS_MAX = 50;
const FAST = ['FLAGS', 'INTERNALDATE', 'RFC822.SIZE'] as const;
const MACROS = {
  ALL: [...FAST, 'ENVELOPE'],
  FAST,
  FULL: [...FAST, 'ENVELOPE', 'BODY'],
} as const;
const OBJECTS = ['SAVEDATE', 'EMAILID', 'THREADID'] as const;
const PLAIN = ['UID', 'ENVELOPE', 'BODYSTRUCTURE', 'MODSEQ', ...FAST, ...OBJECTS] as const;
/** Names of before BODY[]. */
const OLD = {
  RFC822: { what: '', marksSeen: true },
  'RFC822.HEADER': { what: 'HEADER', marksSeen: false },
  'RFC822.TEXT': { what: 'TEXT', marksSeen: true },
} as const;

/** @param isByUid adds the UID, which such a FETCH always tells */
export function readFetch(command: Cursor, isByUid: boolean): FetchRequest {
  const items = readItems(command);
  let changedSince: number | undefined;
  let vanished = false;
  let partial: PartialRange | undefined;
  if (command.has(' (')) {
    do {
      if (command.has('CHANGEDSINCE ')) changedSince = command.number('a MODSEQ');
      else if (command.has('VANISHED')) vanished = true;
      else if (isByUid && command.has('PARTIAL ')) partial = readPartialRange(command);
      else throw new BadCommand('The modifier is not known');
    } while (command.has(' '));
    command.expect(')');
  }
  command.end();
  if (vanished && (!isByUid || changedSince === undefined)) {
    throw new BadCommand('VANISHED is for UID FETCH with CHANGEDSINCE');
  }
  const added: FetchItem[] = [];
  if (isByUid && !has(items, 'UID')) added.push({ kind: 'UID' });
  if (changedSince !== undefined && !has(items, 'MODSEQ')) added.push({ kind: 'MODSEQ' });
  return { items: [...added, ...items], changedSince, vanished, partial };
}

/** What is told of each new message (RFC 5465 section 5.2): its UID in any case, since its number may change. */
export function readNewMessageItems(command: Cursor): FetchRequest {
  const read = readItems(command);
  const items: readonly FetchItem[] = has(read, 'UID') ? read : [{ kind: 'UID' }, ...read];
  return { items, changedSince: undefined, vanished: false, partial: undefined };
}

function has(items: readonly FetchItem[], kind: FetchItem['kind']): boolean {
  return items.some((item) => item.kind === kind);
}

function readItems(command: Cursor): FetchItem[] {
  if (!command.sees('(')) {
    for (const name of ['ALL', 'FAST', 'FULL'] as const) {
      if (command.has(name)) return MACROS[name].map((kind) => ({ kind }));
    }
    return [readItem(command)];
  }
  const items = command.list(() => readItem(command));
  if (items.length > ITEMS_MAX) throw new BadCommand(`At most ${ITEMS_MAX} items`);
  // The same twice, BODY[] fifty times for example, would be sent twice.
  return [...new Map(items.map((item) => [JSON.stringify(item), item])).values()];
}

const BODY = /^BODY(\.PEEK)?\[/i;

function readItem(command: Cursor): FetchItem {
  const name = command.atom('an item').toUpperCase();
  const body = BODY.exec(name);
  if (body) return readBody(command, name, body[1] === undefined);
  const binary = BINARY.exec(name);
  if (binary) {
    command.back(name.length - binary[0].length);
    return readBinary(command, binary[1]);
  }
  if (name === 'BODY' || name === 'BODYSTRUCTURE') return { kind: name };
  if (Object.hasOwn(OLD, name)) {
    const { what, marksSeen } = OLD[name as keyof typeof OLD];
    const section = { part: '', what, names: [], partial: undefined, label: name };
    return { kind: 'section', section, marksSeen };
  }
  if (name === 'PREVIEW') {
    // Previews are kept: to be lazy makes no difference (RFC 8970 section 3.2).
    command.has(' (LAZY)');
    return { kind: name };
  }
  const kind = PLAIN.find((one) => one === name);
  if (!kind) throw new BadCommand('The item of FETCH is not known');
  return { kind };
}

/** The atom has the begin of the section, too: `[` and `.` are characters of an atom. */
function readBody(command: Cursor, name: string, marksSeen: boolean): FetchItem {
  const bracket = name.indexOf('[');
  command.back(name.length - bracket - 1);
  return { kind: 'section', section: readSection(command, 'BODY'), marksSeen };
}
