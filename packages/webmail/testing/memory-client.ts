/** A mailbox in memory, for tests of what is read and written: the parts of `MailClient` that these use. */
import type {
  MailClient,
  MailMessage,
  MessageId,
  Operation,
  OutgoingMail,
  ReadMessage,
  SendOptions,
  TrafficEvent,
} from '../../sdk/src/mail/client.ts';

/** A message as a test writes it. */
export interface GivenMessage {
  readonly id: number;
  readonly mailbox?: string;
  readonly subject?: string;
  readonly from?: string;
  readonly text?: string;
  readonly html?: string;
  readonly dmarc?: string;
  readonly files?: readonly {
    readonly part: string;
    readonly filename?: string;
    readonly contentType: string;
    readonly contentId?: string;
    /** As base64. */
    readonly content: string;
  }[];
}

export interface MemoryClient {
  readonly client: MailClient;
  /** What was asked of it, in order. */
  readonly calls: {
    readonly name: string;
    readonly mail?: OutgoingMail;
    readonly options?: SendOptions;
  }[];
  message(id: MessageId): MailMessage;
  /** What the app and a server say to each other. */
  traffic(event: TrafficEvent): void;
}

const KNOWN = [
  'Bob Baker <bob@sender.test>',
  'Bobby Tables <bobby@school.test>',
  '<carol@shop.test>',
];

function addressOf(text: string) {
  const [, name = '', address = text] = /^(.*?)\s*<(.*)>$/.exec(text) ?? [];
  return { ...(name !== '' && { name }), address };
}

function messageOf(id: MessageId, one: GivenMessage | undefined): MailMessage {
  if (!one) throw new Error('There is no such message');
  return {
    id,
    mailbox: one.mailbox ?? 'INBOX',
    envelope: {
      subject: one.subject ?? `Message ${id}`,
      from: [addressOf(one.from ?? 'Bob Baker <bob@sender.test>')],
      to: [{ address: 'ada@acme.test' }, { address: 'carol@shop.test' }],
    },
    flags: [],
    size: 1000,
    internalDate: '2026-05-01T10:00:00Z',
    preview: '',
    threadId: 't',
    hasAttachment: false,
    pending: false,
  };
}

function writingPart(
  calls: MemoryClient['calls'],
  byId: Map<MessageId, GivenMessage>,
  operation: Operation,
  tellers: Set<(event: TrafficEvent) => void>,
) {
  let lastId = 1000;
  return {
    address: 'ada@acme.test',
    async saveDraft(mail: OutgoingMail) {
      lastId++;
      calls.push({ name: 'saveDraft', mail });
      byId.set(lastId, {
        id: lastId,
        mailbox: 'Drafts',
        text: mail.text ?? '',
        subject: mail.subject ?? '',
      });
      return { mailbox: 'Drafts', id: lastId, operation };
    },
    async send(mail: OutgoingMail, options: SendOptions) {
      calls.push({ name: 'send', mail, options });
      return {
        ...operation,
        kind: 'send',
        sendId: Promise.resolve('s'),
        async cancel() {
          calls.push({ name: 'cancel' });
          return undefined;
        },
      };
    },
    async sends() {
      return [
        {
          id: 's1',
          messageId: '<1@acme.test>',
          status: 'bounced',
          recipients: [
            { address: 'no@sender.test', status: 'bounced', detail: '550 no such user' },
          ],
          subject: 'Lunch',
          operation,
        },
      ];
    },
    async correspondents(prefix: string) {
      const asked = prefix.toLowerCase();
      return KNOWN.filter((one) => one.toLowerCase().includes(asked)).map(addressOf);
    },
    on(_name: string, tell: (event: TrafficEvent) => void) {
      tellers.add(tell);
      return () => tellers.delete(tell);
    },
  };
}

export function memoryClient(given: readonly GivenMessage[]): MemoryClient {
  const calls: MemoryClient['calls'] = [];
  const tellers = new Set<(event: TrafficEvent) => void>();
  const byId = new Map<MessageId, GivenMessage>(given.map((one) => [one.id, one]));
  const message = (id: MessageId) => messageOf(id, byId.get(id));
  const operation: Operation = {
    id: 'o',
    kind: 'append',
    applied: Promise.resolve(),
    undo: async () => {},
  };
  const bytesOf = (base64: string) => Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0));
  const handle = {
    async read(id: MessageId): Promise<ReadMessage> {
      const { text, html, dmarc = 'pass', files = [] } = byId.get(id) ?? {};
      return {
        message: message(id),
        text,
        html,
        truncated: false,
        auth: { spf: 'pass', dkim: 'pass', dmarc },
        inReplyTo: undefined,
        attachments: files.map(({ content, ...file }) => ({
          ...file,
          size: bytesOf(content).length,
          inline: file.contentId !== undefined,
        })),
      };
    },
    async attachment(id: MessageId, part: string) {
      const file = byId.get(id)?.files?.find((one) => one.part === part);
      return new Blob([bytesOf(file?.content ?? '')]);
    },
    async source(id: MessageId) {
      const head =
        'List-Unsubscribe: <https://list.test/leave>, <mailto:leave@list.test?subject=go>';
      return new Blob([`Subject: ${byId.get(id)?.subject}\r\n${head}\r\n\r\nText`]);
    },
    async delete() {
      calls.push({ name: 'delete' });
      return operation;
    },
  };
  const client = { ...writingPart(calls, byId, operation, tellers), mailbox: () => handle };
  const traffic = (event: TrafficEvent) => {
    for (const tell of tellers) tell(event);
  };
  return { client: client as unknown as MailClient, calls, message, traffic };
}
