/** Mail that an account sends: its copy in Sent, its draft, and the time at which it goes out. */
import type {
  CancelSendAnswer,
  SaveDraftBody,
  SavedDraft,
  Send,
  SendMessageAnswer,
  SendMessageBody,
  StoredMessage,
} from '../api-types.ts';
import type { FakeMailboxes, Surroundings } from './mailboxes.ts';
import { invalid, Refusal } from './refusal.ts';
import { type NewAttachment, writeMail } from './source.ts';

interface Sent {
  readonly answer: SendMessageAnswer;
  readonly key: string | undefined;
  readonly source: Uint8Array;
  readonly recipients: readonly string[];
  readonly sendAt: number | undefined;
  status: 'queued' | 'out' | 'cancelled';
  draft: CancelSendAnswer['draft'] | undefined;
}

type By = { readonly id: string } | { readonly key: string };
type Place = NonNullable<SendMessageBody['draft']>;
type GivenAttachment = NonNullable<SendMessageBody['attachments']>[number];

/** What a fake account has sent. */
export class FakeSends {
  readonly #account: FakeMailboxes;
  readonly #around: Surroundings;
  readonly #sent: Sent[] = [];

  constructor(account: FakeMailboxes, around: Surroundings) {
    this.#account = account;
    this.#around = around;
  }

  /** All, oldest first. */
  get all(): readonly Send[] {
    return this.#sent.map(describe);
  }

  /** @throws Refusal send_not_found */
  find(by: By): Send {
    return describe(this.#find(by));
  }

  /** @param key by which `find` finds it */
  send(body: SendMessageBody, key: string | undefined): SendMessageAnswer {
    const { clock, next } = this.#around;
    const account = this.#account;
    const recipients = [...(body.to ?? []), ...(body.cc ?? []), ...(body.bcc ?? [])];
    if (!recipients.every(({ address }) => address)) throw invalid('to', 'must be objects');
    if (recipients.length === 0) throw invalid('to', 'must name a recipient; so can cc and bcc');
    if (body.sendAt !== undefined && body.delaySeconds !== undefined)
      throw invalid('delaySeconds', 'must not stand beside sendAt');
    const id = `00000000-0000-4000-8000-${String(next()).padStart(12, '0')}`;
    const messageId = this.#messageId(id);
    const source = this.#write(body, messageId);
    const draft = body.draft && this.#draft(body.draft);
    const uid = account.append('Sent', source, { flags: ['\\Seen'] });
    const { uidvalidity } = account.mailbox('Sent');
    const answer = { id, messageId, mailbox: 'Sent', uid, uidvalidity, status: 'queued' };
    const later = body.delaySeconds ? clock.now() + body.delaySeconds * 1000 : undefined;
    const sendAt = body.sendAt === undefined ? later : Date.parse(body.sendAt);
    const addresses = [...new Set(recipients.map(({ address }) => address))];
    const sent: Sent = {
      key,
      answer,
      source,
      recipients: addresses,
      sendAt,
      status: 'queued',
      draft,
    };
    this.#sent.push(sent);
    if (body.inReplyTo) account.flag(body.inReplyTo.mailbox, [body.inReplyTo.uid], ['\\Answered']);
    if (draft && sendAt === undefined) account.remove(draft.mailbox, [draft.uid]);
    clock.setTimeout(() => this.#goOut(sent), (sendAt ?? 0) - clock.now());
    return answer;
  }

  saveDraft(body: SaveDraftBody): SavedDraft {
    const source = this.#write(body, this.#messageId(this.#around.next()));
    const replaced = body.draft && this.#draft(body.draft);
    const stored = this.#keepDraft(source);
    if (replaced) this.#account.remove(replaced.mailbox, [replaced.uid]);
    const { attachments = [] } = body;
    const leaves = [...this.#account.message(stored).parts.keys()];
    return { ...stored, parts: leaves.slice(leaves.length - attachments.length) };
  }

  #keepDraft(source: Uint8Array): StoredMessage {
    const uid = this.#account.append('Drafts', source, { flags: ['\\Draft', '\\Seen'] });
    return { mailbox: 'Drafts', uid, uidvalidity: this.#account.mailbox('Drafts').uidvalidity };
  }

  readonly #messageId = (id: string | number) => `<${id}@${this.#account.address.split('@')[1]}>`;

  /** @throws Refusal send_not_found, already_sent */
  cancel(id: string): CancelSendAnswer {
    const sent = this.#find({ id });
    const { status, answer, source } = sent;
    if (status === 'out') throw new Refusal('already_sent', 'the message went out');
    const account = this.#account;
    if (status === 'queued') {
      sent.status = 'cancelled';
      if (!sent.draft || !account.mailbox(sent.draft.mailbox).find(sent.draft.uid)) {
        sent.draft = this.#keepDraft(source);
      }
      account.remove('Sent', [answer.uid]);
    }
    return { ok: true, draft: sent.draft ?? { mailbox: 'Drafts', uid: 0 } };
  }

  #goOut(sent: Sent): void {
    if (sent.status !== 'queued') return;
    sent.status = 'out';
    if (sent.draft) this.#account.remove(sent.draft.mailbox, [sent.draft.uid]);
    for (const address of sent.recipients) this.#around.deliver(address, sent.source);
  }

  #write(body: SaveDraftBody, messageId: string): Uint8Array {
    const { address, displayName: name } = this.#account;
    const { from = { address, name }, to = [], cc = [], bcc = [], subject = '', text, html } = body;
    const isOwn = from.address.replace(/\+[^@]*/, '').toLowerCase() === address.toLowerCase();
    if (!isOwn) throw invalid('from.address', `must be ${address}, or that with a +tag`);
    const answered = body.inReplyTo && this.#account.message(body.inReplyTo);
    const references = [...(answered?.references ?? []), answered?.envelope.messageId ?? ''].filter(
      Boolean,
    );
    return writeMail({
      ...{ from, to, cc, bcc, subject, messageId, references, date: this.#around.clock.now() },
      ...(text !== undefined && { text }),
      ...(html !== undefined && { html }),
      ...(body.headers && { headers: body.headers }),
      attachments: (body.attachments ?? []).map((one) => this.#attachment(one)),
    });
  }

  #attachment({
    content,
    mailbox = 'INBOX',
    uid = 0,
    uidvalidity,
    part = '1',
    ...given
  }: GivenAttachment): NewAttachment {
    if (content !== undefined) {
      return { ...given, content: Uint8Array.from(atob(content), (one) => one.charCodeAt(0)) };
    }
    const { parts, attachments } = this.#account.message({
      mailbox,
      uid,
      ...(uidvalidity !== undefined && { uidvalidity }),
    });
    const bytes = parts.get(part);
    if (!bytes) throw new Refusal('part_not_found', `the message has no part ${part}`);
    const { filename, contentType } = attachments.find((one) => one.part === part) ?? {};
    return {
      ...(filename && { filename }),
      ...(contentType && { contentType }),
      ...given,
      content: bytes,
    };
  }

  #draft(place: Place): CancelSendAnswer['draft'] | undefined {
    const { name, uidvalidity, specialUse, find } = this.#account.checked(place);
    const flags = find(place.uid)?.flags;
    if (!flags) return undefined;
    if (specialUse === '\\Drafts' || flags.includes('\\Draft'))
      return { mailbox: name, uid: place.uid, uidvalidity };
    throw invalid('draft', 'must have the flag \\Draft, or be in the mailbox of drafts');
  }

  #find(by: By): Sent {
    const found = this.#sent.find((one) =>
      'id' in by ? one.answer.id === by.id : one.key === by.key,
    );
    if (!found) throw new Refusal('send_not_found', 'the account sent no such message');
    return found;
  }
}

const DELIVERED = { status: 'delivered', detail: '250 2.0.0 Ok: queued' } as const;
const BOUNCED = { status: 'bounced', detail: '550 5.1.1 no such user' } as const;

function describe({ answer, status, sendAt, recipients }: Sent): Send {
  const { id, messageId, mailbox, uid, uidvalidity } = answer;
  const fateOf = (address: string) => {
    if (status !== 'out') return { status };
    // RFC 2606: there is no such domain.
    return /\.invalid$/i.test(address) ? BOUNCED : DELIVERED;
  };
  const fates = recipients.map((address) => ({ address, ...fateOf(address) }));
  const worst = fates.find((one) => one.status === 'bounced') ?? fates[0];
  return {
    id,
    messageId,
    status: worst?.status ?? 'queued',
    ...(sendAt !== undefined && { sendAt: new Date(sendAt).toISOString() }),
    ...(status !== 'cancelled' && { copy: { mailbox, uid, uidvalidity } }),
    recipients: fates,
  };
}
