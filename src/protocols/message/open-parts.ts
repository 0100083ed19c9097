/**
 * The parts of a message while it is read: the tree so far, and the multiparts and nested messages that are open
 * at this point of the stream.
 */
import { Buffer } from 'node:buffer';
import { isIdentity, type PartContent } from './part-content.ts';
import { MAX_DEPTH, type MessagePart } from './structure.ts';
import { isEncoded, TransferMeter } from './transfer-encoding.ts';

/** The most parts that are separated; what comes after them counts in the size of the part around it. */
const MAX_PARTS = 1_000;

/**
 * The most characters of parameters and ids that are kept for one message, since its structure is stored with
 * it; parts after that have none.
 */
const MAX_KEPT_TEXT = 128 * 1024;

const LF = 0x0a;

/** A part that may not have ended yet. */
interface Draft {
  readonly headerStart: number;
  bodyStart: number;
  bodyEnd: number;
  content: PartContent | undefined;
  readonly children: Draft[];
  meter: TransferMeter | undefined;
  decodedSize: number | undefined;
  lines: number | undefined;
}

/** A multipart or nested message that has not ended. */
interface Container {
  readonly draft: Draft;
  /** Undefined in a nested message, and once the closing delimiter has been seen. */
  boundary: string | undefined;
}

/** A line that is a boundary delimiter (RFC 2046 section 5.1.1). */
export interface Delimiter {
  /** The open container that it belongs to. */
  readonly depth: number;
  /** Whether it ends the multipart (`--boundary--`). */
  readonly closes: boolean;
}

interface OpenDelimiter extends Delimiter {
  /** The line without the leading `--`. */
  readonly text: Buffer;
}

/** What comes after a header block. */
export type Next = 'header' | 'body';

function newDraft(headerStart: number): Draft {
  return {
    headerStart,
    bodyStart: headerStart,
    bodyEnd: headerStart,
    content: undefined,
    children: [],
    meter: undefined,
    decodedSize: undefined,
    lines: undefined,
  };
}

/** Byte by byte: a search for each line end is slowest where there are only line ends. */
function countLineEnds(bytes: Buffer, end: number): number {
  let count = 0;
  for (let at = 0; at < end; at++) if (bytes[at] === LF) count++;
  return count;
}

export class OpenParts {
  readonly #root = newDraft(0);
  readonly #containers: Container[] = [];
  /** The part whose header or body is read; none in a preamble or epilogue. */
  #current: Draft | undefined = this.#root;
  #count = 1;
  #lineIsOpen = false;
  /** Delimiter lines of the open multiparts, the innermost first. */
  #delimiters: readonly OpenDelimiter[] = [];
  #firstBytes: ReadonlySet<number | undefined> = new Set();

  /** Whether any line of the body can be a delimiter. */
  get hasDelimiters(): boolean {
    return this.#delimiters.length > 0;
  }

  /** Whether the header that is read is that of the whole message. */
  get isRoot(): boolean {
    return this.#current === this.#root;
  }

  /** RFC 2046 section 5.1.5: parts of a digest are messages unless they say otherwise. */
  get defaultType(): string {
    const parent = this.#containers.at(-1)?.draft.content?.type;
    return parent === 'multipart/digest' ? 'message/rfc822' : 'text/plain';
  }

  /**
   * Whether the bytes at an offset can be a delimiter. This check is cheap, since a hostile body needs it every
   * few bytes.
   *
   * @param start offset of the `--` that starts the line; the line may continue after the bytes
   */
  mayDelimit(bytes: Buffer, start: number): boolean {
    const first = bytes[start + 2];
    if (first !== undefined && !this.#firstBytes.has(first)) return false;
    return this.#delimiters.some(
      ({ closes, text }) => !closes && startsAlike(bytes, start + 2, text),
    );
  }

  /**
   * Whether a line is a delimiter of an open multipart, the innermost first.
   *
   * The whole line counts, except white space at its end, so that a boundary that starts like another one is not
   * mistaken for it.
   *
   * @param line begins with `--`, its line end included
   */
  findDelimiter(line: Buffer): Delimiter | undefined {
    let end = line.length;
    while (end > 2 && isSpace(line[end - 1])) end--;
    const content = line.subarray(2, end);
    return this.#delimiters.find(({ text }) => text.equals(content));
  }

  /**
   * Sets the content fields of the part whose header was read.
   *
   * @param hasBody false where a delimiter or the end of the message cuts the header off
   */
  headerRead(content: PartContent, bodyStart: number, hasBody: boolean): Next {
    const draft = this.#current;
    if (!draft) throw new Error('No header is being read');
    draft.content = content;
    draft.bodyStart = bodyStart;
    draft.bodyEnd = bodyStart;
    const mayDescend = hasBody && this.#containers.length < MAX_DEPTH;
    if (mayDescend && content.boundary !== undefined) {
      this.#open(draft, content.boundary);
      return 'body';
    }
    if (mayDescend && isNestedMessage(content) && this.#count < MAX_PARTS) {
      this.#open(draft, undefined);
      this.#begin(bodyStart);
      return 'header';
    }
    if (isEncoded(content.encoding)) draft.meter = new TransferMeter(content.encoding);
    if (content.type.startsWith('text/')) draft.lines = 0;
    this.#lineIsOpen = false;
    return 'body';
  }

  /** Counts bytes of the current body. */
  measure(bytes: Buffer, end: number): void {
    const draft = this.#current;
    if (!draft || end <= 0) return;
    draft.meter?.write(bytes.subarray(0, end));
    if (draft.lines !== undefined) {
      draft.lines += countLineEnds(bytes, end);
      this.#lineIsOpen = bytes[end - 1] !== LF;
    }
  }

  /**
   * Ends the parts that a delimiter ends, and begins the part after it.
   *
   * @param bodyEnd start of the line end before the delimiter
   * @param headerStart end of the delimiter line
   */
  delimit(delimiter: Delimiter, bodyEnd: number, headerStart: number): Next {
    this.#closeAbove(delimiter.depth, bodyEnd);
    const container = this.#containers[delimiter.depth];
    if (container && delimiter.closes) {
      container.boundary = undefined;
      this.#listDelimiters();
    }
    if (this.#count >= MAX_PARTS) {
      this.#listDelimiters();
      return 'body';
    }
    if (delimiter.closes) return 'body';
    this.#begin(headerStart);
    return 'header';
  }

  /** Ends all parts at the end of the message. */
  end(size: number): MessagePart {
    this.#closeAbove(-1, size);
    return describe(this.#root, undefined, { left: MAX_KEPT_TEXT });
  }

  #begin(headerStart: number): void {
    const draft = newDraft(headerStart);
    this.#containers.at(-1)?.draft.children.push(draft);
    this.#current = draft;
    this.#count++;
  }

  #open(draft: Draft, boundary: string | undefined): void {
    this.#containers.push({ draft, boundary });
    this.#current = undefined;
    this.#listDelimiters();
  }

  #closeAbove(depth: number, bodyEnd: number): void {
    const leaf = this.#current;
    this.#current = undefined;
    if (leaf) {
      leaf.bodyEnd = bodyEnd;
      leaf.decodedSize = leaf.meter?.end();
      leaf.meter = undefined;
      if (leaf.lines !== undefined && this.#lineIsOpen) leaf.lines++;
    }
    const closed = this.#containers.splice(depth + 1);
    for (const { draft } of closed) draft.bodyEnd = bodyEnd;
    if (closed.length > 0) this.#listDelimiters();
  }

  /** After the last part that is separated, no line is a delimiter. */
  #listDelimiters(): void {
    const isFull = this.#count >= MAX_PARTS;
    const open = isFull ? [] : this.#containers.map(({ boundary }, depth) => ({ boundary, depth }));
    this.#delimiters = open.toReversed().flatMap(({ boundary, depth }) => {
      if (boundary === undefined) return [];
      return [
        { depth, closes: false, text: Buffer.from(boundary, 'latin1') },
        { depth, closes: true, text: Buffer.from(`${boundary}--`, 'latin1') },
      ];
    });
    this.#firstBytes = new Set(this.#delimiters.map(({ text }) => text[0]));
  }
}

/** @param text compared only as far as there are bytes */
function startsAlike(bytes: Buffer, start: number, text: Buffer): boolean {
  const length = Math.min(text.length, bytes.length - start);
  for (let at = 0; at < length; at++) if (bytes[start + at] !== text[at]) return false;
  return true;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d || byte === LF;
}

/** A nested message without a transfer encoding; an encoded one would have to be decoded first. */
function isNestedMessage(content: PartContent): boolean {
  const isMessage = content.type === 'message/rfc822' || content.type === 'message/global';
  return isMessage && isIdentity(content.encoding);
}

/** The length of the texts that are kept of a part, except its type. */
function textLength(content: PartContent): number {
  let length = (content.id ?? '').length;
  for (const parameters of [content.parameters, content.dispositionParameters]) {
    for (const [name, value] of Object.entries(parameters)) length += name.length + value.length;
  }
  return length;
}

function isEmpty(parameters: Readonly<Record<string, string>>): boolean {
  return Object.keys(parameters).length === 0;
}

/** The number of the part at a position (from 1) in a multipart or message that has a number itself. */
function numberIn(parent: string | undefined, position: number): string {
  return parent === undefined ? `${position}` : `${parent}.${position}`;
}

/**
 * Turns a draft and its children into the stored form, numbered by RFC 3501 section 6.4.5: a multipart that is
 * the whole of a message has no number, and its parts are numbered below the message; any other part that is the
 * whole of a message is its part 1.
 *
 * @param message number of the part whose nested message this is; undefined at the root
 * @param number number of this part where it is one of a multipart
 */
function describe(
  draft: Draft,
  message: string | undefined,
  budget: { left: number },
  number?: string,
): MessagePart {
  const { content, children } = draft;
  if (!content) throw new Error('A part has no content fields');
  const isMultipart = children.length > 0 && content.boundary !== undefined;
  const part = number ?? (isMultipart ? undefined : numberIn(message, 1));
  budget.left -= textLength(content);
  const kept = budget.left >= 0;
  const childNodes = children.map((child, index) =>
    isMultipart
      ? describe(child, undefined, budget, numberIn(part ?? message, index + 1))
      : describe(child, part, budget),
  );
  return toPart(draft, content, kept, part, childNodes);
}

/**
 * Builds a part field by field, in the order in which they are stored. Spreads of absent fields in one literal
 * take some fifteen times as long: as long as parsing a small header.
 *
 * @param kept whether there is room for parameters and ids
 */
function toPart(
  { headerStart, bodyStart, bodyEnd, decodedSize, lines }: Draft,
  content: PartContent,
  kept: boolean,
  number: string | undefined,
  childNodes: readonly MessagePart[],
): MessagePart {
  const { id, disposition, parameters, dispositionParameters } = content;
  const part: { -readonly [Field in keyof MessagePart]?: MessagePart[Field] } = {};
  if (number !== undefined) part.part = number;
  part.type = content.type;
  if (kept && !isEmpty(parameters)) part.parameters = parameters;
  part.encoding = content.encoding;
  part.size = bodyEnd - bodyStart;
  part.decodedSize = decodedSize ?? part.size;
  if (lines !== undefined) part.lines = lines;
  if (kept && id !== undefined) part.id = id;
  if (disposition !== undefined) part.disposition = disposition;
  if (kept && !isEmpty(dispositionParameters)) part.dispositionParameters = dispositionParameters;
  part.headerStart = headerStart;
  part.bodyStart = bodyStart;
  part.bodyEnd = bodyEnd;
  if (childNodes.length > 0) part.childNodes = childNodes;
  return part as MessagePart;
}
