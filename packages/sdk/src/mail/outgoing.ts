/** Mail of the user as it is stored until it goes: its files as blobs, and how it is shown meanwhile. */
import type { OutgoingMail } from './client.ts';
import type { Copy } from './copy.ts';
import { findNamed, locate } from './named.ts';
import { makeId, type Platform } from './platform.ts';
import {
  type MessageFacts,
  type NamedMessage,
  put,
  type StoredAttachment,
  type StoredMail,
} from './rows.ts';
import type { Change } from './store.ts';

export interface StoredOutgoing {
  readonly stored: StoredMail;
  readonly shown: MessageFacts;
  readonly files: readonly Change[];
}

export async function storeMail(
  mail: OutgoingMail,
  copy: Copy,
  platform: Platform,
): Promise<StoredOutgoing> {
  const { attachments, draft, inReplyTo, ...rest } = mail;
  const files: Change[] = [];
  const kept: StoredAttachment[] = [];
  for (const { content, from, ...attachment } of attachments ?? []) {
    if (from) kept.push({ ...attachment, from: named(from, copy) });
    else {
      const bytes = content instanceof Blob ? new Uint8Array(await content.arrayBuffer()) : content;
      if (!bytes) throw new TypeError('attachments must have content, or from');
      const blob = makeId();
      const type =
        attachment.contentType ??
        (content instanceof Blob && content.type ? content.type : 'application/octet-stream');
      files.push(put('blobs', { account: copy.account, blob, type, bytes }));
      kept.push({ ...attachment, contentType: type, blob, size: bytes.length });
    }
  }
  const stored: StoredMail = {
    // Members that are undefined are not stored.
    ...(JSON.parse(JSON.stringify(rest)) as typeof rest),
    ...(draft && { draft: named(draft, copy) }),
    ...(inReplyTo && { inReplyTo: named(inReplyTo, copy) }),
    ...(attachments && { attachments: kept }),
  };
  return { stored, shown: await showMail(stored, copy, platform), files };
}

/** A message that has its UID by now is named by it. */
function named<Place extends NamedMessage>(place: Place, copy: Copy): Place {
  const { uid, uidvalidity } = locate(place, copy);
  return uid === 0 ? place : { ...place, id: uid, ...(uidvalidity && { uidvalidity }) };
}

async function showMail(mail: StoredMail, copy: Copy, platform: Platform): Promise<MessageFacts> {
  const { from, to, cc, bcc, subject = '', text = '', attachments = [], inReplyTo } = mail;
  const answered = await findNamed(inReplyTo, copy);
  const now = new Date(platform.now()).toISOString();
  const size = attachments.reduce((sum, file) => sum + (file.size ?? 0), text.length);
  return {
    envelope: {
      date: now,
      subject,
      from: [from ?? { address: copy.address }],
      ...(to && { to: [...to] }),
      ...(cc && { cc: [...cc] }),
      ...(bcc && { bcc: [...bcc] }),
    },
    flags: ['\\Draft', '\\Seen'],
    size,
    internalDate: now,
    preview: text.replace(/\s+/g, ' ').trim().slice(0, 200),
    ...(answered?.threadId !== undefined && { threadId: answered.threadId }),
    hasAttachment: attachments.some(({ inline }) => !inline),
  };
}
