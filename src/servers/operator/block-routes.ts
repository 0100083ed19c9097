/** `/v2/operator/blocks`: senders whose mail is refused. */
import { Type } from 'typebox';
import type { Blocks } from '../../mail/blocks/blocks.ts';
import { actorOf, Instant, OneOf, RecordId, type RouteGroup, Text, writerOf } from '../api/api.ts';
import { answerPage, isKey, listEcho, listFields, readPage } from './lists.ts';

const Kind = OneOf(
  ['address', 'domain', 'network'],
  '`address`: a sender, in any case. `domain`: all senders of the domain and of its subdomains. `network`: all mail of these clients, bounces too.',
  'domain',
);

const Note = Text('Your note, such as the reason.', 'phishing on Monday');

const BlockBody = Type.Object(
  {
    id: RecordId,
    kind: Kind,
    value: Text('In lower case, IDNA-encoded; a network as `192.0.2.0/24`.', 'bad.example'),
    note: Type.Optional(Note),
    created_at: Instant(),
  },
  { title: 'Block', description: 'A sender whose mail is refused.' },
);

const writeBlock = writerOf(BlockBody);

/** The routes that list, add and delete blocks. */
export function blockRoutes(blocks: Pick<Blocks, 'list' | 'add' | 'remove'>): RouteGroup {
  return (app) => {
    app.get('/v2/operator/blocks', {
      schema: {
        summary: 'List the blocked senders',
        description: 'The newest first.',
        operationId: 'listBlocks',
        querystring: Type.Object(listFields),
        response: { 200: Type.Object({ items: Type.Array(BlockBody), ...listEcho }) },
      },
      handler: async ({ query }) => {
        const page = readPage(query, isKey('integer'));
        const found = await blocks.list({ before: page.after?.[0], limit: page.limit + 1 });
        return answerPage(found, page, ({ id }) => [id], found.map(writeBlock));
      },
    });
    app.post('/v2/operator/blocks', {
      schema: {
        summary: 'Block a sender',
        description:
          'Its mail is refused at `MAIL FROM` with `550 5.7.1`: at once on the node that answers, within 10 seconds on the others. If the sender is blocked already, the answer has the existing block.',
        operationId: 'addBlock',
        body: Type.Object({
          kind: Kind,
          value: Text(
            'The address, the domain, or the network (an IP address alone is one).',
            'bad.example',
            { maxLength: 1024 },
          ),
          note: Type.Optional(Note),
        }),
        response: { 200: BlockBody },
      },
      handler: async (request) => writeBlock(await blocks.add(request.body, actorOf(request))),
    });
    app.post('/v2/operator/blocks/delete', {
      config: { refusals: ['block_not_found'] },
      schema: {
        summary: 'Accept the mail of a sender again',
        description: 'The answer has the removed block.',
        operationId: 'deleteBlock',
        body: Type.Object({ id: RecordId }),
        response: { 200: BlockBody },
      },
      handler: async (request) =>
        writeBlock(await blocks.remove(request.body.id, actorOf(request))),
    });
  };
}
