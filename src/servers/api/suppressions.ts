/** The addresses that a domain's accounts can no longer write to, for operators. */
import { Type } from 'typebox';
import type { Suppressions } from '../../mail/sending/sending.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import { answerWithin } from './repeat-safely.ts';
import { actorOf, type Owned, ownerOf, type RouteGroup } from './route-tools.ts';
import {
  answerPage,
  DomainName,
  Instant,
  pageEcho,
  pageFields,
  pageOf,
  RecordId,
  Text,
  UserId,
  writerOf,
} from './schemas.ts';

const Address = Type.String({ examples: ['bob@sender.test'] });

const SuppressionBody = Type.Object(
  {
    id: RecordId,
    address: Address,
    detail: Text(
      'What the mail server of the address said.',
      'mx.sender.test: 550 5.1.1 no such user',
    ),
    created_at: Instant(),
  },
  { title: 'Suppression', description: 'An address that bounced for good.' },
);

const write = writerOf(SuppressionBody);

/** `GET /v2/domains/:domain/suppressions` and `POST /v2/domains/:domain/suppressions/delete`. */
export function suppressionRoutes(
  domains: Owned<Pick<Domains, 'find'>>,
  suppressions: Suppressions,
): RouteGroup {
  return (app) => {
    app.get('/v2/domains/:domain/suppressions', {
      config: { refusals: ['domain_not_found'] },
      schema: {
        summary: 'List suppressed addresses',
        description:
          'Addresses of which a mail server said that they do not exist (status 5.1.x). Mail from the ' +
          "domain's accounts to them bounces at once. In the order in which they were added, or the newest first.",
        operationId: 'listSuppressions',
        params: Type.Object({ domain: DomainName }),
        querystring: Type.Object({ user_id: UserId, ...pageFields }),
        response: { 200: Type.Object({ items: Type.Array(SuppressionBody), ...pageEcho }) },
      },
      handler: async (request) => {
        const { id } = await domains.find(ownerOf(request), request.params.domain);
        const page = pageOf(request.query);
        const items = await suppressions.list(id, page);
        const written = items.map(write);
        return answerPage(written, page, (most) => suppressions.count(id, most));
      },
    });
    app.post('/v2/domains/:domain/suppressions/delete', {
      config: { refusals: ['domain_not_found', 'suppression_not_found'] },
      schema: {
        summary: 'Allow mail to this address again',
        description: 'Removes the address from the list.',
        operationId: 'deleteSuppression',
        params: Type.Object({ domain: DomainName }),
        body: Type.Object({ user_id: UserId, address: Address }),
        response: { 200: Type.Object({ ok: Type.Boolean(), deleted: Address }) },
      },
      handler: async (request) => {
        const { params, body } = request;
        const domain = await domains.find(ownerOf(request), params.domain);
        const describe = (deleted: string) => ({ ok: true, deleted });
        const within = answerWithin(request, 200, describe);
        const deleted = await suppressions.remove(domain, body.address, actorOf(request), within);
        if (deleted === undefined) {
          throw new Refusal('suppression_not_found', `${body.address} is not on the list`);
        }
        return describe(deleted);
      },
    });
  };
}
