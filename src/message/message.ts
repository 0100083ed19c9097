/**
 * What a message is made of: its header fields, its envelope, its tree of MIME parts, and the
 * addresses in it. Pure code without I/O, for bytes that may be anything: it throws nothing, takes
 * linear time, and keeps no body in memory.
 *
 * A message is read once, when it arrives ({@link MessageParser}). What is stored with it is JSON:
 * the envelope, and the structure with the offsets of every part in the raw source. From then on a
 * part is read by its offsets and decoded as a stream ({@link decodePart}), so that neither opening
 * a message nor fetching an attachment parses anything again. Part numbers are those of IMAP.
 */
export type { Mailbox } from './address-list.ts';
export { type Authors, findAuthors, MAX_AUTHOR_DOMAINS } from './authors.ts';
export { BodyHash, type Canonicalization, canonicalField, signedText } from './canonicalize.ts';
export {
  type Attachment,
  hasAttachments,
  listAttachments,
  listTextParts,
  type OpenSource,
  readInlineText,
} from './content-parts.ts';
export { type Envelope, readEnvelope } from './envelope.ts';
export {
  fieldValue,
  firstValue,
  HEADER_START,
  type Header,
  type HeaderField,
  HeaderReader,
  rawValue,
  readHeader,
  startsHeader,
} from './header.ts';
export { toBrowserName, toDnsName } from './host-name.ts';
export { htmlToText } from './html-text.ts';
export { asBuffer, LineEnds } from './line-ends.ts';
export {
  findPreviewPart,
  type MessageTexts,
  previewOf,
  readMessageTexts,
  readPreview,
} from './message-content.ts';
export { oneLine } from './one-line.ts';
export { type Address, parseAddress } from './parse-address.ts';
export { MessageParser, type ParsedMessage } from './parse-message.ts';
export { readContent } from './part-content.ts';
export { shiftParsed } from './shift-parts.ts';
export {
  type BodyStructure,
  findPart,
  type MessagePart,
  parsePartNumber,
  partFilename,
  toBodyStructure,
} from './structure.ts';
export { parseTagList, type TagList, trimSpace } from './tag-list.ts';
export { decodeRawHeader, decodeText } from './text.ts';
export {
  createDecoder,
  type DecodedRange,
  decodePart,
  isEncoded,
  type TransferDecoder,
} from './transfer-encoding.ts';
