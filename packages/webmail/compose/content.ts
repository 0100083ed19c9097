/** A message that is being written, and how it becomes one that is sent. */
import type { Address, Correspondent } from '../../sdk/src/api-types.ts';
import type {
  MailMessage,
  MessageLocation,
  OutgoingAttachment,
  OutgoingMail,
  ReadMessage,
} from '../../sdk/src/mail/client.ts';
import { bareId, isPicture, safeFileName } from '../reading/stranger-text.ts';
import { toCorrespondents } from './addresses.ts';
import {
  attribution,
  escapeHtml,
  forwardHead,
  forwardSubject,
  quoteText,
  replyRecipients,
  replySubject,
  textToHtml,
} from './reply.ts';

export interface ComposeFile {
  readonly filename: string;
  readonly contentType: string;
  /** Octets. */
  readonly size: number;
  /** Chosen here. */
  readonly content?: Blob | undefined;
  /** Or a part of a message that the server has. */
  readonly from?: OutgoingAttachment['from'];
  /** The HTML shows it as a picture by this id. */
  readonly contentId?: string | undefined;
}

/** What the message is about: folded below the text, and joined to it when it is saved or sent. */
export interface Quote {
  readonly text: string;
  /** Clean HTML. */
  readonly html?: string | undefined;
}

export interface ComposeContent {
  to: Correspondent[];
  cc: Correspondent[];
  bcc: Correspondent[];
  subject: string;
  text: string;
  /** What the editor has; absent while plain text is written. */
  html?: string | undefined;
  quote?: Quote | undefined;
  files: ComposeFile[];
  inReplyTo?: MessageLocation | undefined;
  /** Where it is a draft. */
  kept?: MessageLocation | undefined;
  /** The server refused what has the same: that is not needed once this is stored. */
  forget?: (() => Promise<void>) | undefined;
}

/** A message that was read, with a text in any case and with clean HTML: a page makes it (html-tools.ts). */
export type Readable = ReadMessage & { readonly text: string };

/** The words of an HTML text. */
export type TextOf = (html: string) => string;

export function emptyContent(signature: string): ComposeContent {
  const text = signature.trim() === '' ? '' : `\n\n-- \n${signature.trimEnd()}\n`;
  return { to: [], cc: [], bcc: [], subject: '', text, files: [] };
}

/**
 * @param own addresses of the account
 * @param signature of the account
 */
export function replyContent(
  { message, text, html }: Readable,
  { own, signature, toAll }: { own: readonly string[]; signature: string; toAll: boolean },
): ComposeContent {
  const told = attribution(message);
  return {
    ...emptyContent(signature),
    ...replyRecipients(message.envelope, own, toAll),
    subject: replySubject(message.envelope.subject),
    quote: {
      text: `${told}\n${quoteText(text)}\n`,
      html: html
        ? `<div>${escapeHtml(told)}</div><blockquote type="cite">${html}</blockquote>`
        : undefined,
    },
    inReplyTo: placeOf(message),
  };
}

export function forwardContent(read: Readable, signature: string): ComposeContent {
  const { message, text, html } = read;
  const head = forwardHead(message);
  return {
    ...emptyContent(signature),
    subject: forwardSubject(message.envelope.subject),
    quote: {
      text: `${head}\n\n${text}`,
      html: html ? `${textToHtml(head)}<br>${html}` : undefined,
    },
    files: filesOf(read),
  };
}

/** What was no address yet when a draft was saved, is read as the name of nobody. */
const toUnfinished = (people: readonly Address[] = []) =>
  toCorrespondents(people.map((one) => ({ ...one, address: one.address || one.name || '' })));

/** A draft that goes on; its quote is part of its text now. */
export function draftContent(read: Readable): ComposeContent {
  const { message, text, html, inReplyTo } = read;
  const { envelope } = message;
  return {
    to: toUnfinished(envelope.to),
    cc: toUnfinished(envelope.cc),
    bcc: toUnfinished(envelope.bcc),
    subject: envelope.subject,
    text: text.replace(/\n$/, ''),
    html,
    files: filesOf(read),
    inReplyTo,
    kept: placeOf(message),
  };
}

/** The message as it is saved and sent. */
export function toOutgoing(content: ComposeContent, textOf: TextOf): OutgoingMail {
  const { to, cc, bcc, subject, files, quote, inReplyTo, kept } = content;
  const written = content.html === undefined ? content.text : textOf(content.html);
  const text = quote ? `${written.trimEnd()}\n\n${quote.text}` : written;
  const html = writeHtml(content);
  return {
    to,
    cc,
    bcc,
    subject,
    text: text.endsWith('\n') ? text : `${text}\n`,
    ...(html !== undefined && { html }),
    // A picture that no HTML shows is a file like others.
    attachments: files.map((file) => toAttachment(file, html)),
    inReplyTo,
    draft: kept,
  };
}

/** Plain text stays plain; unless pictures and form of the quoted message would be lost by forwarding it. */
function writeHtml({ html, text, quote, inReplyTo }: ComposeContent): string | undefined {
  const quoted = quote?.html ?? (quote && textToHtml(quote.text));
  if (html !== undefined) return quoted === undefined ? html : `${html}<br>${quoted}`;
  const isForwarded = quote?.html !== undefined && inReplyTo === undefined;
  return isForwarded ? `${textToHtml(text)}<br>${quote.html}` : undefined;
}

function toAttachment(
  { size: _, contentId, ...file }: ComposeFile,
  html: string | undefined,
): OutgoingAttachment {
  const isShown = contentId !== undefined && html?.includes(`cid:${contentId}`) === true;
  return { ...file, ...(isShown && { contentId, inline: true }) };
}

/** The files of a message stay on the server: a part is named, not downloaded and uploaded again. */
function filesOf({ message, attachments }: ReadMessage): ComposeFile[] {
  const { mailbox, id } = message;
  return attachments.map((file) => ({
    filename: safeFileName(file),
    contentType: file.contentType,
    size: file.size,
    from: { mailbox, id, part: file.part },
    contentId: isPicture(file.contentType) ? file.contentId && bareId(file.contentId) : undefined,
  }));
}

function placeOf({ mailbox, id }: MailMessage): MessageLocation {
  return { mailbox, id };
}

/** Whether nothing of it would be missed. */
export function isUnwritten(content: ComposeContent, signature: string): boolean {
  const start = emptyContent(signature);
  const isSameText = content.text.trim() === start.text.trim() && !content.html?.trim();
  const { to, cc, bcc, files, subject, quote } = content;
  const hasNothing = [to, cc, bcc, files].every(({ length }) => length === 0);
  return isSameText && hasNothing && subject === '' && quote === undefined;
}
