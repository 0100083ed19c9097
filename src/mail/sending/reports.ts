/**
 * Bounces from outside (RFC 3464): what a mail server that accepted a message reports later about its recipients.
 *
 * Anybody can write one. It counts only where it names the Message-ID of a message that its recipient account has
 * sent, and a recipient whose mail server accepted the message; so a forger who has that message can only change
 * what the account sees of it. It puts no address on a suppression list: every recipient knows the Message-ID, and
 * could stop the mail of the whole domain to the others.
 */
import { Readable } from 'node:stream';
import type { Queries } from '../../platform/database/database.ts';
import {
  decodePart,
  fieldValue,
  firstValue,
  type HeaderField,
  type MessagePart,
  oneLine,
  type ParsedMessage,
  readHeader,
} from '../../protocols/message/message.ts';
import type { Counted } from '../../tenants/usage/usage.ts';
import type { LateBounce, NoteReport, ReadReport } from '../outbound/outbound.ts';
import { comparableAddress } from './suppressions.ts';

/** The most octets of a report, and recipients in it, that are read. */
const REPORT_MAX = 64 * 1024;
const RECIPIENTS_MAX = 100;
const MESSAGE_ID = /^<[!-;=?-~]{1,980}>$/;
/** InterMail, which many providers of access run, names its text for people a status, too. */
const STATUSES_MAX = 2;

type Open = Parameters<ReadReport>[1];

/** What a report says of one recipient. */
interface Reported {
  /** In the form of {@link comparableAddress}. */
  readonly addresses: readonly string[];
  readonly action: 'failed' | 'delayed';
  /** For people. */
  readonly detail: string;
}

/** See {@link ReadReport}. */
export async function readReport(
  { structure }: ParsedMessage,
  open: Open,
): Promise<NoteReport | undefined> {
  if (structure.type !== 'multipart/report') return undefined;
  const parts = structure.childNodes ?? [];
  const statuses = parts.filter(({ type }) => STATUS.has(type)).slice(0, STATUSES_MAX);
  const original = parts.find(({ type }) => ORIGINAL.has(type));
  if (!original) return undefined;
  const messageId = firstValue(await fieldsOf(await textOf(original, open)), 'message-id');
  if (messageId === undefined || !MESSAGE_ID.test(messageId)) return undefined;
  const reported: Reported[] = [];
  for (const status of statuses)
    reported.push(...(await readRecipients(await textOf(status, open))));
  if (reported.length === 0) return undefined;
  return async (tx, accountIds) => {
    const counted: Counted[] = [];
    const bounces: LateBounce[] = [];
    for (const accountId of accountIds) {
      const bounced = await note(tx, accountId, messageId, reported);
      if (bounced.length > 0) counted.push({ accountId, bounced: bounced.length });
      bounces.push(...bounced);
    }
    return { bounces, counted };
  };
}

/** Parts with the results, and with the header of the message (RFC 6522 section 3, RFC 6533 section 5). */
const STATUS = new Set(['message/delivery-status', 'message/global-delivery-status']);
const ORIGINAL = new Set([
  'message/rfc822',
  'text/rfc822-headers',
  'message/global',
  'message/global-headers',
]);

async function textOf(part: MessagePart, open: Open): Promise<Buffer> {
  const end = Math.min(part.bodyEnd, part.bodyStart + 4 * REPORT_MAX);
  if (end <= part.bodyStart) return Buffer.alloc(0);
  const source = open({ start: part.bodyStart, end });
  const decoded = decodePart(part.encoding, source, { start: 0, end: REPORT_MAX });
  // A decoder may return memory that it reuses.
  return Buffer.concat(await Array.fromAsync(decoded, (piece) => Buffer.from(piece)));
}

async function fieldsOf(text: Buffer): Promise<readonly HeaderField[]> {
  return (await readHeader(Readable.from([text]))).fields;
}

/** RFC 3464 section 2.1: groups of fields; the first is about the message, each other one about a recipient. */
async function readRecipients(text: Buffer): Promise<Reported[]> {
  const [, ...groups] = text
    .toString('latin1')
    .split(/(?:\r?\n){2,}/)
    .slice(0, RECIPIENTS_MAX + 1);
  const reported: Reported[] = [];
  for (const group of groups) {
    const fields = await fieldsOf(Buffer.from(`${group}\r\n\r\n`, 'latin1'));
    const one = readRecipient(fields);
    if (one) reported.push(one);
  }
  return reported;
}

function readRecipient(fields: readonly HeaderField[]): Reported | undefined {
  const action = firstValue(fields, 'action')?.toLowerCase();
  if (action !== 'failed' && action !== 'delayed') return undefined;
  const status = /^\d\.\d{1,3}\.\d{1,3}/.exec(firstValue(fields, 'status') ?? '')?.[0] ?? '';
  const diagnostic = typedValue(fields, 'diagnostic-code') ?? '';
  return {
    action,
    addresses: ['original-recipient', 'final-recipient'].flatMap((name) => {
      const address = typedValue(fields, name);
      // Some write it as in a command.
      return address === undefined ? [] : [comparableAddress(address.replace(/^<(.*)>$/, '$1'))];
    }),
    detail: oneLine(`${action}: ${status} ${diagnostic}`),
  };
}

/** The value after the type (RFC 3464 section 2.1.2), in either form of UTF-8 (RFC 6533 section 3). */
function typedValue(fields: readonly HeaderField[], name: string): string | undefined {
  const field = fields.find((one) => one.name === name);
  const [, type = '', value] = field ? (/^([^;]*);(.*)$/.exec(fieldValue(field)) ?? []) : [];
  if (value === undefined) return undefined;
  const text = Buffer.from(value, 'latin1').toString().trim();
  if (type.trim().toLowerCase() !== 'utf-8') return text;
  return text.replace(/\\x\{([0-9A-F]{2,5}|10[0-9A-F]{4})\}/g, (_, hex: string) =>
    String.fromCodePoint(Number.parseInt(hex, 16)),
  );
}

async function note(
  tx: Queries,
  accountId: number,
  messageId: string,
  reported: readonly Reported[],
): Promise<LateBounce[]> {
  const send = await tx
    .selectFrom('sends')
    .select(['id', 'public_id as mailId'])
    .where('account_id', '=', accountId)
    .where('message_id', '=', messageId)
    .orderBy('id', 'desc')
    .executeTakeFirst();
  if (!send) return [];
  const recipients = await tx
    .selectFrom('send_recipients')
    .select(['id', 'address', 'status', 'delivery_id as deliveryId'])
    .where('send_id', '=', send.id)
    .execute();
  const bounced = new Map<number, LateBounce>();
  for (const { addresses, action, detail } of reported) {
    const named = recipients.find(({ address }) => addresses.includes(comparableAddress(address)));
    // The mail of an only recipient may have been forwarded: then the report names the other address.
    const found = named ?? (recipients.length === 1 ? recipients[0] : undefined);
    // A waiting recipient does not change: a report must not stop a message from being sent.
    if (found?.status !== 'delivered') continue;
    const isBounced = action === 'failed';
    if (isBounced) {
      const { address: recipient, deliveryId } = found;
      const { mailId } = send;
      bounced.set(found.id, { accountId, mailId, recipient, deliveryId, detail });
    }
    await tx
      .updateTable('send_recipients')
      .set({ detail, ...(isBounced && { status: 'bounced' as const }) })
      .where('id', '=', found.id)
      .execute();
  }
  return [...bounced.values()];
}
