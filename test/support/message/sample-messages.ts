/**
 * Messages for the tests of this folder: the corpus, random ones of known content, mutations; and checks that
 * hold for every parsed message.
 */
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { readdirSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import {
  findPart,
  MessageParser,
  type MessagePart,
  type ParsedMessage,
} from '../../../src/protocols/message/message.ts';
import { createDecoder } from '../../../src/protocols/message/transfer-encoding.ts';

const corpusFolder = new URL('corpus/', import.meta.url);

/** Every message of the corpus, by file name without its ending. */
export function readCorpus(): Map<string, Buffer> {
  const names = readdirSync(corpusFolder).filter((name) => name.endsWith('.eml'));
  return new Map(
    names.sort().map((name) => [name.slice(0, -4), readFileSync(new URL(name, corpusFolder))]),
  );
}

/** A message of these lines, each ended with CRLF. */
export function lines(...text: string[]): Buffer {
  return Buffer.from(text.map((line) => `${line}\r\n`).join(''));
}

/** Parses a source, cut into chunks of these lengths again and again; in one chunk without them. */
export function parse(source: Buffer, cuts: readonly number[] = [source.length]): ParsedMessage {
  const parser = new MessageParser();
  for (let at = 0, turn = 0; at < source.length; turn++) {
    const length = Math.max(1, cuts[turn % cuts.length] ?? 1);
    // The copy is overwritten afterwards, which shows whether the parser keeps a reference to a chunk.
    const chunk = Buffer.from(source.subarray(at, at + length));
    parser.write(chunk);
    chunk.fill(0x21);
    at += length;
  }
  return parser.end();
}

/** One line for each part: number, type, encoding and decoded size, indented by depth. */
export function outline(part: MessagePart, indent = ''): string[] {
  const line = `${indent}${part.part ?? '-'} ${part.type} ${part.encoding} ${part.decodedSize}`;
  return [line, ...(part.childNodes ?? []).flatMap((child) => outline(child, `${indent}  `))];
}

export function leavesOf(part: MessagePart): MessagePart[] {
  return part.childNodes ? part.childNodes.flatMap(leavesOf) : [part];
}

/** The content of a part without its transfer encoding. */
export function contentOf(source: Buffer, part: MessagePart): Buffer {
  const decoder = createDecoder(part.encoding);
  const start = decoder.write(source.subarray(part.bodyStart, part.bodyEnd));
  return Buffer.concat([start, decoder.end()]);
}

function checkPart(source: Buffer, part: MessagePart, root: MessagePart): void {
  assert.ok(part.headerStart <= part.bodyStart && part.bodyStart <= part.bodyEnd);
  assert.ok(part.bodyEnd <= source.length);
  assert.equal(part.size, part.bodyEnd - part.bodyStart);
  if (part.part !== undefined) assert.equal(findPart(root, part.part), part);
  if (!part.childNodes) assert.equal(contentOf(source, part).length, part.decodedSize);
  let from = part.bodyStart;
  for (const child of part.childNodes ?? []) {
    assert.ok(child.headerStart >= from, 'parts follow one another');
    assert.ok(child.bodyEnd <= part.bodyEnd, 'a part lies within what holds it');
    from = child.bodyEnd;
    checkPart(source, child, root);
  }
}

/** Checks that hold for every message, however broken. */
export function checkParsed(source: Buffer, parsed: ParsedMessage): void {
  assert.equal(parsed.size, source.length);
  assert.equal(parsed.headerEnd, parsed.structure.bodyStart);
  assert.equal(parsed.structure.headerStart, 0);
  assert.equal(parsed.structure.bodyEnd, source.length);
  checkPart(source, parsed.structure, parsed.structure);
  assert.deepEqual(JSON.parse(JSON.stringify(parsed)), parsed, 'all of it is JSON');
}

/** The plan of a random message. */
export type Tree =
  | { kind: 'leaf'; encoding: 'base64' | 'quoted-printable' | '8bit'; content: Buffer }
  | { kind: 'multipart'; parts: Tree[] }
  | { kind: 'message'; message: Tree };

/** Every byte but lower-case letters as `=XX`, with a soft line break after every 20. */
function encodeQuotedPrintable(content: Buffer): string {
  const octets = [...content].map((byte) =>
    byte >= 0x61 && byte <= 0x7a
      ? String.fromCharCode(byte)
      : `=${byte.toString(16).toUpperCase().padStart(2, '0')}`,
  );
  return octets.map((octet, at) => (at % 20 === 19 ? `${octet}=\r\n` : octet)).join('');
}

/** Writes a tree as a message, in latin1; `level` keeps boundaries apart. */
function render(tree: Tree, level = 0): string {
  const header = `X-Level: ${level}\r\n`;
  if (tree.kind === 'message') {
    return `${header}Content-Type: message/rfc822\r\n\r\n${render(tree.message, level + 1)}`;
  }
  if (tree.kind === 'multipart') {
    const boundary = `=_${level}_boundary`;
    const parts = tree.parts.map((part) => `\r\n--${boundary}\r\n${render(part, level + 1)}`);
    const type = `Content-Type: multipart/mixed;\r\n boundary="${boundary}"`;
    return `${header}${type}\r\n\r\npreamble${parts.join('')}\r\n--${boundary}--\r\nepilogue`;
  }
  const { encoding, content } = tree;
  const bodies = {
    base64: () => content.toString('base64').replace(/.{76}/g, '$&\r\n'),
    'quoted-printable': () => encodeQuotedPrintable(content),
    '8bit': () => content.toString('latin1'),
  };
  return `${header}Content-Transfer-Encoding: ${encoding}\r\n\r\n${bodies[encoding]()}`;
}

/** Numbers and contents of the leaves, directly by RFC 3501 section 6.4.5. */
function expectLeaves(tree: Tree, number: string, isWhole: boolean): [string, Buffer][] {
  const prefix = number === '' ? '' : `${number}.`;
  if (tree.kind === 'multipart') {
    return tree.parts.flatMap((part, at) => expectLeaves(part, `${prefix}${at + 1}`, false));
  }
  const own = isWhole ? `${prefix}1` : number;
  return tree.kind === 'message' ? expectLeaves(tree.message, own, true) : [[own, tree.content]];
}

const content = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc
    .string({ unit: fc.constantFrom('a', '-', '\r', '\n', ' ', '=', 'é') })
    .map((text) => Buffer.from(text)),
);

const leaf: fc.Arbitrary<Tree> = fc.record({
  kind: fc.constant('leaf'),
  encoding: fc.constantFrom('base64', 'quoted-printable', '8bit'),
  content,
});

const { tree } = fc.letrec<{ tree: Tree; multipart: Tree; message: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    { weight: 1, arbitrary: leaf },
    { weight: 3, arbitrary: tie('multipart') },
    { weight: 1, arbitrary: tie('message') },
  ),
  multipart: fc.record({
    kind: fc.constant('multipart'),
    parts: fc.array(tie('tree'), { minLength: 1, maxLength: 3 }),
  }),
  message: fc.record({ kind: fc.constant('message'), message: tie('tree') }),
}));

export interface KnownMessage {
  readonly source: Buffer;
  readonly leaves: readonly [number: string, content: Buffer][];
}

/** Well-formed messages, with the numbers and contents that their leaves must have. */
export const knownMessages: fc.Arbitrary<KnownMessage> = tree.map((root) => ({
  source: Buffer.from(render(root), 'latin1'),
  leaves: expectLeaves(root, '', true),
}));

/** Pieces that change what a message means. */
const tokens = [
  ...[
    '\r\n',
    '\n',
    '\r',
    '\r\n\r\n',
    '\n--',
    '\r\n--b\r\n',
    '\r\n--b--\r\n',
    '--outer\n',
    '--inner--',
  ],
  ...['=', '=\r\n', '= \t', '\0', '\xff', '; boundary=b', 'boundary="', '(', ')', '"', '\\', '--'],
  ...['Content-Type: multipart/mixed; boundary=b\r\n\r\n', 'Content-Type: message/rfc822\r\n\r\n'],
  ...['Content-Transfer-Encoding: base64\r\n', 'Content-Transfer-Encoding: quoted-printable\r\n'],
  ...[
    "filename*0*=utf-8''%",
    '=?utf-8?Q?=C3',
    '?=',
    '=?x?B?',
    'Subject:',
    ' '.repeat(1_200),
    `\n--${'x'.repeat(990)}`,
    'y'.repeat(3_000),
  ],
];

const edit = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  removed: fc.nat({ max: 20 }),
  inserted: fc.oneof(
    fc.constantFrom(...tokens),
    fc.uint8Array({ maxLength: 8 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
  ),
});

/** Messages of the corpus and random ones, with pieces removed and inserted. */
export const mutatedMessages: fc.Arbitrary<Buffer> = fc
  .tuple(
    fc.oneof(
      fc.constantFrom(...readCorpus().values()),
      knownMessages.map(({ source }) => source),
      fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    ),
    fc.array(edit, { maxLength: 8 }),
  )
  .map(([source, edits]) =>
    edits.reduce((message, { at, removed, inserted }) => {
      const start = Math.floor(at * message.length);
      return Buffer.concat([
        message.subarray(0, start),
        Buffer.from(inserted, 'latin1'),
        message.subarray(start + removed),
      ]);
    }, source),
  );

/** Lengths of the chunks that a message is cut into. */
export const cuts: fc.Arbitrary<number[]> = fc.array(fc.integer({ min: 1, max: 4_000 }), {
  minLength: 1,
  maxLength: 10,
});
