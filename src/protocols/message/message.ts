/**
 * The parts of a message: its header fields, its envelope, its tree of MIME parts, and the addresses in it. Pure
 * code without I/O, for bytes that may be anything: it throws nothing, takes linear time, and keeps no body in
 * memory.
 *
 * A message is parsed once, when it arrives ({@link MessageParser}). The result is stored as JSON: the envelope,
 * and the structure with the offsets of every part in the raw source. Later a part is read by its offsets and
 * decoded as a stream ({@link decodePart}), so that neither opening a message nor fetching an attachment parses
 * anything again. Part numbers are those of IMAP.
 */
export {
  type AddressEntry,
  type Allowance,
  MAX_MAILBOXES,
  type Mailbox,
  readAddressEntries,
  readAddressList,
} from './address-lists.ts';
export {
  canonicalAddress,
  formatAddress,
  organizationalDomain,
  parseAddress,
  toDnsName,
  toHostName,
} from './addresses.ts';
export { ARC_SETS_MAX, type ArcSet, readArcSets } from './arc.ts';
export {
  type Attachment,
  findPreviewPart,
  hasAttachments,
  htmlToText,
  listAttachments,
  listNestedMessages,
  listTextParts,
  type OpenSource,
  previewOf,
  readInlineText,
  readMessageTexts,
  readPreview,
} from './content.ts';
export {
  BodyHash,
  type Canonicalization,
  canonicalField,
  parseTagList,
  signedText,
  type TagList,
  trimSpace,
} from './dkim.ts';
export { encodeBinary } from './encode-binary.ts';
export {
  type Authors,
  type Envelope,
  findAuthors,
  formatDate,
  hiddenFields,
  parseDate,
  readEnvelope,
  readMessageId,
  readReferences,
} from './envelope.ts';
export {
  fieldValue,
  firstValue,
  type Header,
  type HeaderField,
  HeaderReader,
  MAX_HEADER,
  rawValue,
  readFields,
  readHeader,
} from './header.ts';
export {
  MessageParser,
  type ParsedMessage,
  parseMessage,
  putInFront,
  shiftParsed,
} from './parse-message.ts';
export { readContent } from './part-content.ts';
export {
  type BodyStructure,
  findPart,
  MAX_DEPTH,
  type MessagePart,
  parsePartNumber,
  partFilename,
  toBodyStructure,
} from './structure.ts';
export {
  asBuffer,
  decodeRawHeader,
  decodeText,
  decodeWords,
  LineEnds,
  oneLine,
  readPartText,
} from './text.ts';
export { createDecoder, decodePart, isDecodable, isEncoded } from './transfer-encoding.ts';
export { hasHidden } from './visible-text.ts';
