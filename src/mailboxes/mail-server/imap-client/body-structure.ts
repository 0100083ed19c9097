/**
 * BODYSTRUCTURE of a server (RFC 3501 section 7.4.2) in the form that every store of ours returns, numbered by section
 * 6.4.5.
 */
import { type BodyStructure, MAX_DEPTH, readContent } from '../../../protocols/message/message.ts';
import type { ImapItem } from './responses.ts';
import { bytesOf, listOf, numberOf, textOf } from './wire.ts';

const MAX_PARTS = 1_000;

interface Budget {
  parts: number;
}

/** @returns undefined where the server's answer is not a structure */
export function readBodyStructure(item: ImapItem | undefined): BodyStructure | undefined {
  return readPart(item, { message: undefined, number: undefined, depth: 0 }, { parts: MAX_PARTS });
}

interface PartLocation {
  /** Number of the part whose nested message this is; undefined at the root. */
  readonly message: string | undefined;
  /** Number of this part where it is one of a multipart. */
  readonly number: string | undefined;
  readonly depth: number;
}

function readPart(
  item: ImapItem | undefined,
  location: PartLocation,
  budget: Budget,
): BodyStructure | undefined {
  const list = listOf(item);
  if (list.length === 0 || location.depth > MAX_DEPTH || budget.parts-- <= 0) return undefined;
  return Array.isArray(list[0])
    ? readMultipart(list, location, budget)
    : readLeaf(list, location, budget);
}

function numberIn(parent: string | undefined, index: number): string {
  return parent === undefined ? `${index}` : `${parent}.${index}`;
}

function readMultipart(
  list: readonly ImapItem[],
  { message, number, depth }: PartLocation,
  budget: Budget,
): BodyStructure {
  const subtypeAt = list.findIndex((item) => !Array.isArray(item));
  const bodies = subtypeAt < 0 ? list : list.slice(0, subtypeAt);
  // A multipart that is the whole of a message has no number.
  const parent = number ?? message;
  const childNodes: BodyStructure[] = [];
  for (const [index, body] of bodies.entries()) {
    const location = { message: undefined, number: numberIn(parent, index + 1), depth: depth + 1 };
    const child = readPart(body, location, budget);
    if (child) childNodes.push(child);
  }
  const [subtype, parameters, disposition] = subtypeAt < 0 ? [] : list.slice(subtypeAt);
  const type = `multipart/${textOf(subtype) ?? 'mixed'}`;
  return {
    ...(number !== undefined && { part: number }),
    ...describe({ type, parameters, disposition }),
    size: childNodes.reduce((sum, child) => sum + child.size, 0),
    ...(childNodes.length > 0 && { childNodes }),
  };
}

function readLeaf(
  list: readonly ImapItem[],
  { message, number, depth }: PartLocation,
  budget: Budget,
): BodyStructure {
  const [mediaType, subtype, parameters, id, , encoding, octets] = list;
  const type = `${textOf(mediaType) ?? 'text'}/${textOf(subtype) ?? 'plain'}`.toLowerCase();
  const part = number ?? numberIn(message, 1);
  const isMessage =
    (type === 'message/rfc822' || type === 'message/global') && Array.isArray(list[8]);
  // body-type-msg has envelope, body and lines, body-type-text lines, before the extensions.
  const extensions = isMessage ? 10 : type.startsWith('text/') ? 8 : 7;
  const nested = isMessage
    ? readPart(list[8], { message: part, number: undefined, depth: depth + 1 }, budget)
    : undefined;
  return {
    part,
    ...describe({ type, parameters, disposition: list[extensions + 1], id, encoding }),
    size: numberOf(octets) ?? 0,
    ...(nested && { childNodes: [nested] }),
  };
}

interface Fields {
  readonly type: string;
  readonly parameters?: ImapItem | undefined;
  readonly disposition?: ImapItem | undefined;
  readonly id?: ImapItem | undefined;
  readonly encoding?: ImapItem | undefined;
}

/** Reads the content fields as if they were in a header: names, charsets and limits are the same. */
function describe({ type, parameters, disposition, id, encoding }: Fields) {
  const fields = new Map([['content-type', `${type}${writeParameters(parameters)}`]]);
  const encodingText = rawText(encoding);
  if (encodingText) fields.set('content-transfer-encoding', encodingText);
  const idText = rawText(id);
  if (idText) fields.set('content-id', idText);
  const [kind, dispositionParameters] = listOf(disposition);
  const kindText = rawText(kind);
  if (kindText) {
    const text = `${kindText}${writeParameters(dispositionParameters)}`;
    fields.set('content-disposition', text);
  }
  const content = readContent((name) => fields.get(name), 'text/plain');
  const isBare = (record: object) => Object.keys(record).length === 0;
  return {
    type: content.type,
    ...(!isBare(content.parameters) && { parameters: content.parameters }),
    encoding: content.encoding,
    ...(content.id !== undefined && { id: content.id }),
    ...(content.disposition !== undefined && { disposition: content.disposition }),
    ...(!isBare(content.dispositionParameters) && {
      dispositionParameters: content.dispositionParameters,
    }),
  };
}

/** One character per byte, as for header text. */
function rawText(item: ImapItem | undefined): string | undefined {
  return bytesOf(item)?.toString('latin1');
}

function writeParameters(item: ImapItem | undefined): string {
  const list = listOf(item);
  let text = '';
  for (let at = 0; at + 1 < list.length; at += 2) {
    const name = rawText(list[at]);
    const value = rawText(list[at + 1]);
    if (name === undefined || value === undefined || !/^[^\s"=;]+$/.test(name)) continue;
    // A value in extended notation (RFC 2231) is decoded only where it is not quoted.
    text += name.endsWith('*')
      ? `; ${name}=${value}`
      : `; ${name}="${value.replace(/[\\"]/g, '\\$&')}"`;
  }
  return text;
}
