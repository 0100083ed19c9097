/**
 * Events for receivers and apps, for the API description: webhooks, and the messages of the WebSocket. No code is
 * checked by these schemas; the samples of the documentation, which are compared with what a running service sends,
 * are checked against them (`test/journeys/documentation.test.ts`).
 */
import { type TSchema, Type } from 'typebox';
import { EventBody } from './events.ts';
import { Instant, Integer, Text } from './schemas.ts';

const textOrNull = (options: object) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], ...options });
const cut = (what: string) =>
  Type.Optional(Type.Boolean({ description: `True if ${what} cut to fit.` }));
const instant = Instant();

const mailboxes = (description: string) =>
  Type.Array(
    Type.Object(
      { name: Type.String(), address: Type.String() },
      { title: 'WebhookAddress', examples: [{ name: 'Bob', address: 'bob@sender.test' }] },
    ),
    { description },
  );

const webhookAttachment = Type.Object(
  {
    filename: textOrNull({ examples: ['a.csv'] }),
    content_type: Type.String({ examples: ['text/csv'] }),
    size: Integer('Bytes, transfer encoding removed.', 6),
    part: Text('Part number, as in IMAP.', '2'),
    url: Type.String({ format: 'uri', description: 'Link to the bytes of this part, for 7 days.' }),
  },
  { title: 'WebhookAttachment' },
);

const verdict = (check: string) =>
  textOrNull({
    description: `Result of ${check}; null if it was not checked.`,
    examples: ['pass'],
  });

const receivedMessage = Type.Object(
  {
    domain: Type.String({ examples: ['acme.test'] }),
    envelope: Type.Object(
      { from: Type.String(), to: Type.Array(Type.String()) },
      {
        title: 'SmtpEnvelope',
        description: 'Sender and recipients in SMTP; only recipients of this domain.',
        examples: [{ from: 'bob@sender.test', to: ['ada@acme.test'] }],
      },
    ),
    subject: textOrNull({ examples: ['Hello'] }),
    from: mailboxes('The header From.'),
    to: mailboxes('The header To.'),
    cc: mailboxes('The header Cc.'),
    addresses_truncated: cut('the addresses were'),
    date: textOrNull({
      description: 'The header Date.',
      format: 'date-time',
      examples: ['2026-01-31T11:59:58.000Z'],
    }),
    message_id: textOrNull({ examples: ['<1@sender.test>'] }),
    text: textOrNull({ description: 'The text/plain parts.', examples: ['Hello, Ada.'] }),
    text_truncated: cut('the text was'),
    html: textOrNull({
      description: 'The text/html parts, as they were sent.',
      examples: ['<p>Hello, Ada.</p>'],
    }),
    html_truncated: cut('the HTML was'),
    attachments: Type.Array(webhookAttachment),
    attachments_truncated: cut('the list of attachments was'),
    auth: Type.Object(
      { spf: verdict('SPF'), dkim: verdict('DKIM'), dmarc: verdict('DMARC') },
      { title: 'SenderChecks', examples: [{ spf: 'pass', dkim: 'pass', dmarc: 'pass' }] },
    ),
    raw_url: Type.String({
      format: 'uri',
      description: 'Link to the source, for 7 days.',
      examples: ['https://mail.example.com/webhooks/raw/7?expires=1795849200&signature=c2ln'],
    }),
    mail_id: Text(
      'The id in the answer to the client that brought the message; the same in the log, Received and trace.',
      '019c1a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b',
    ),
    mailbox: textOrNull({
      description: 'Where the message is also stored; null if only the webhook gets it.',
      examples: ['INBOX'],
    }),
  },
  { title: 'ReceivedMessage' },
);

const messageReceived = Type.Object(
  { type: Type.Literal('message.received'), timestamp: instant, data: receivedMessage },
  { title: 'MessageReceived', description: 'A message came in for a domain.' },
);

const header = (name: string, description: string, required = true) => ({
  name,
  in: 'header',
  required,
  description,
  schema: { type: 'string' },
});

const responses = {
  '2XX': { description: 'Accepted.' },
  410: { description: 'Gone: no further attempt is made.' },
  default: { description: 'Tried again later; 429 and 503 may say when by Retry-After.' },
};

/** The member `webhooks` of the description. */
export const webhooks = {
  'message.received': {
    post: {
      operationId: 'messageReceived',
      tags: ['Webhooks'],
      summary: 'A message came in',
      description:
        'Sent to the `webhook_url` of a route, signed by Standard Webhooks 1.0.0, and repeated until the answer is 2xx. Body and `webhook-id` are the same each time.',
      parameters: [
        header('webhook-id', 'The same in each attempt: process each id once.'),
        header('webhook-timestamp', 'Seconds since 1970, of this attempt.'),
        header(
          'webhook-signature',
          '`v1,` and HMAC-SHA256 over id, timestamp and body; absent where the route has no secret.',
          false,
        ),
      ],
      requestBody: {
        required: true,
        content: { 'application/json': { schema: plain(messageReceived) } },
      },
      responses,
    },
  },
  event: {
    post: {
      operationId: 'eventHappened',
      tags: ['Webhooks'],
      summary: 'Something happened to a user',
      description:
        'Sent to the URL of an event hook: an event of `GET /v2/events`, signed and repeated as other webhooks are.',
      parameters: [
        header('webhook-id', 'The `cursor` of the event: process each once.'),
        header('webhook-timestamp', 'Seconds since 1970, of this attempt.'),
        header('webhook-signature', '`v1,` and HMAC-SHA256 over id, timestamp and body.'),
      ],
      requestBody: {
        required: true,
        content: { 'application/json': { schema: plain(EventBody) } },
      },
      responses,
    },
  },
};

const tip = {
  mailbox: Type.String({ examples: ['INBOX'] }),
  uidvalidity: Type.String({ examples: ['1795244400'] }),
  token: Text('What a sync would return now.', '45'),
};

const hello = Type.Object(
  {
    type: Type.Literal('hello'),
    user: Text("The account's address.", 'ada@acme.test'),
    connectionId: Type.String({ examples: ['0b0c9e3e-6d0e-4c84-9d5b-5a3f6f4f2f0a'] }),
    serverTime: instant,
    heartbeatSeconds: Integer('Seconds between two pings.', 30),
    mailboxes: Type.Array(
      Type.Object(
        {
          ...tip,
          mailboxId: Type.Optional(
            Text(
              'Stays the same when the mailbox is renamed; absent on a mail server.',
              'm1795244400',
            ),
          ),
        },
        { title: 'MailboxTip' },
      ),
    ),
  },
  { title: 'HelloEvent', description: 'The first message, with the state of every mailbox.' },
);

const mailboxChanged = Type.Object(
  {
    type: Type.Literal('mailbox_changed'),
    ...tip,
    eventType: Type.String({ examples: ['MailboxesChanged'] }),
  },
  {
    title: 'MailboxChangedEvent',
    description: 'A mailbox changed. A hint: sync with the token of your own last sync.',
  },
);

const mailboxesChanged = Type.Object(
  { type: Type.Literal('mailboxes_changed') },
  {
    title: 'MailboxesChangedEvent',
    description: 'Mailboxes were made, renamed or deleted: list them again.',
  },
);

const heartbeat = Type.Object(
  { type: Type.Literal('heartbeat') },
  {
    title: 'HeartbeatEvent',
    description:
      'The connection is there: it comes with each ping, to clients that connected by the subprotocols, since browsers hide pings.',
  },
);

/** The messages of the WebSocket by their `type`: OpenAPI has no place for them. */
export const socketEvents = {
  hello: plain(hello),
  mailbox_changed: plain(mailboxChanged),
  mailboxes_changed: plain(mailboxesChanged),
  heartbeat: plain(heartbeat),
};

/** As plain JSON, without the additions of TypeBox. */
function plain(schema: TSchema): object {
  return JSON.parse(JSON.stringify(schema));
}
