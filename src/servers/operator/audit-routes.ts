/** `GET /v2/operator/audit`: who changed what. */
import { Type } from 'typebox';
import type { Database } from '../../platform/database/database.ts';
import { listAudit } from '../../tenants/audit/audit.ts';
import { Instant, type RouteGroup, Text, writerOf } from '../api/api.ts';
import { answerPage, filterText, isKey, listEcho, listFields, readPage } from './lists.ts';

export { actorOf } from '../api/api.ts';

const AuditBody = Type.Object(
  {
    id: Type.Integer({ examples: [1] }),
    at: Instant(),
    actor: Text(
      'The name and number of the API key; for a key of the settings the first 8 hex digits of its SHA-256; `program` for the command line.',
      'billing (key 1)',
    ),
    action: Text('What was done.', 'domain.delete'),
    target: Text('What it was done to.', 'acme.test'),
    counts: Type.Optional(
      Type.Record(Type.String(), Type.Number(), {
        description: 'How many accounts, messages or deliveries were changed.',
        examples: [{ accounts: 12, messages: 3400 }],
      }),
    ),
    request_id: Type.Optional(Text('As in `x-request-id` and the log.', 'req-1')),
    node: Text('The host that did it.', 'mail-1'),
  },
  { title: 'AuditEntry', description: 'Something that an operator or a product changed.' },
);

const writeEntry = writerOf(AuditBody);

/** The route of the audit log. */
export function auditRoutes(database: Pick<Database, 'read'>): RouteGroup {
  return (app) => {
    app.get('/v2/operator/audit', {
      schema: {
        summary: 'List what was changed',
        description:
          'The newest first. The entry of a deletion has the name of what was deleted, and counts of what was deleted with it.',
        operationId: 'listAudit',
        querystring: Type.Object({
          target: filterText(
            'Only what was done to this, as `target` of an entry names it.',
            'acme.test',
            1_000,
          ),
          ...listFields,
        }),
        response: { 200: Type.Object({ items: Type.Array(AuditBody), ...listEcho }) },
      },
      handler: async ({ query }) => {
        const page = readPage(query, isKey('integer'));
        const entries = await listAudit(database.read, {
          before: page.after?.[0],
          target: query.target,
          limit: page.limit + 1,
        });
        return answerPage(entries, page, ({ id }) => [id], entries.map(writeEntry));
      },
    });
  };
}
