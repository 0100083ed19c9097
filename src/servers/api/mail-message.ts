/** GET /mail/message: one whole message, as JSON or as its source (contract 4.3). */
import { isUtf8 } from 'node:buffer';
import { Type } from 'typebox';
import type { Mailstore, Message } from '../../mailboxes/mailstore/mailstore.ts';
import { acceptWeight } from '../../platform/net/net.ts';
import { beginStream } from './answer-errors.ts';
import { bodyStructureSchema, envelopeSchema, messageQuery } from './mail-schemas.ts';
import type { RouteGroup } from './route-tools.ts';
import { Bytes, Integer, OneOf, Text, writtenHere } from './schemas.ts';

/** Up to this size a source is answered in one piece; a longer one is read twice and streamed. */
const WHOLE_MAX = 256 * 1024;

const sourceType = 'message/rfc822';

const messageAnswer = Type.Object(
  {
    uid: Type.Integer({ examples: [7] }),
    envelope: envelopeSchema,
    flags: Type.Array(Text('IMAP flags.', '\\Seen')),
    rfc822: Text(
      'The source; see rfc822Encoding.',
      'From: Bob <bob@sender.test>\r\nTo: ada@acme.test\r\n…',
    ),
    rfc822Encoding: OneOf(
      ['utf-8', 'latin1'],
      'How characters of rfc822 become the bytes of the source again.',
    ),
    bodyStructure: bodyStructureSchema,
    size: Integer('Bytes of the source.', 1434),
    internalDate: Text('When the message arrived, RFC 3339.', '2026-01-31T12:00:00.000Z'),
  },
  { title: 'Message', description: 'A message with its source.' },
);

export function mailMessageRoutes(mailstore: Mailstore): RouteGroup {
  return (app, tools) => {
    app.get('/mail/message', {
      schema: {
        summary: 'Fetch a message',
        operationId: 'fetchMessage',
        description:
          'Never sets `\\Seen`. `rfc822` is lossless: UTF-8 where the source is valid UTF-8, else ' +
          'one character per byte. With `Accept: message/rfc822` the source itself is streamed.',
        querystring: Type.Object(messageQuery),
        response: {
          200: {
            description: 'The message.',
            content: {
              'application/json': { schema: writtenHere(messageAnswer) },
              [sourceType]: { schema: Bytes },
            },
          },
        },
      },
      config: {
        refusals: ['mailbox_not_found', 'message_not_found', 'body_unavailable'],
      },
      handler: async (request, reply) => {
        const user = await tools.authenticateMail(request);
        const { mailbox, uid } = request.query;
        const message = await mailstore.fetchMessage(user, mailbox || 'INBOX', uid);
        reply.header('vary', 'accept');
        if (wantsSource(request.headers.accept)) {
          const source = await beginStream(message.open());
          return reply.type(sourceType).header('content-length', message.size).send(source);
        }
        const answer =
          message.size <= WHOLE_MAX
            ? JSON.stringify(await readWhole(message))
            : await beginStream(writeInPieces(message));
        // Fastify sends a text of this type unchanged.
        return reply.type('application/json; charset=utf-8').send(answer);
      },
    });
  };
}

/** Whether Accept asks for the source, and not as much for JSON. */
function wantsSource(accept: string | undefined): boolean {
  return acceptWeight(accept, sourceType) > acceptWeight(accept, 'application/json');
}

/** The whole answer. */
async function readWhole(message: Message): Promise<object> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of message.open()) chunks.push(chunk);
  const [only] = chunks;
  const whole = only && chunks.length === 1 ? only : Buffer.concat(chunks);
  const source = Buffer.from(whole.buffer, whole.byteOffset, whole.length);
  const encoding = isUtf8(source) ? 'utf-8' : 'latin1';
  return { ...describe(message), rfc822Encoding: encoding, rfc822: source.toString(encoding) };
}

/** The same JSON with flat memory: a first reading finds the encoding, a second one writes. */
async function* writeInPieces(message: Message): AsyncGenerator<string> {
  const encoding = (await isUtf8Throughout(message)) ? 'utf-8' : 'latin1';
  const source = await beginStream(message.open());
  try {
    yield `${JSON.stringify(describe(message)).slice(0, -1)},"rfc822Encoding":"${encoding}","rfc822":"`;
    // A byte order mark is part of the source.
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    for await (const chunk of source as AsyncIterable<Buffer>) {
      const text =
        encoding === 'latin1' ? chunk.toString('latin1') : decoder.decode(chunk, { stream: true });
      yield JSON.stringify(text).slice(1, -1);
    }
    yield '"}';
  } finally {
    source.destroy();
  }
}

async function isUtf8Throughout(message: Message): Promise<boolean> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  try {
    for await (const chunk of message.open()) decoder.decode(chunk, { stream: true });
    decoder.decode();
    return true;
  } catch (error) {
    if (error instanceof TypeError) return false;
    throw error;
  }
}

function describe({ uid, envelope, flags, bodyStructure, size, internalDate }: Message) {
  return { uid, envelope, flags, bodyStructure, size, internalDate };
}
