/**
 * Section 4.1 of the contract: claim a domain, read its DNS records, set its route.
 */
import { Type } from 'typebox';
import type { Database } from '../../platform/database/database.ts';
import type { Accounts } from '../../tenants/accounts/accounts.ts';
import {
  type Domain,
  type DomainDetails,
  type Domains,
  type Verification,
  writeZone,
} from '../../tenants/domains/domains.ts';
import { contentsOfDomain } from './count-contents.ts';
import {
  DetailsBody,
  DnsRecordBody,
  ForwardMode,
  RecordStatus,
  writeDetails,
  writeRecord,
} from './domain-bodies.ts';
import { answerWithin } from './repeat-safely.ts';
import { type Api, actorOf, type Owned, ownerOf, type RouteGroup } from './route-tools.ts';
import {
  answerPage,
  DomainBody,
  DomainName,
  OneOf,
  pageEcho,
  pageFields,
  pageOf,
  present,
  RecordId,
  Text,
  UserId,
  UserQuery,
  writeDomain,
} from './schemas.ts';

const DomainPath = Type.Object({ domain: DomainName });

const DnsQuery = Type.Object({
  user_id: UserId,
  format: Type.Optional(OneOf(['json', 'zone'], '`json` when left out.')),
});

const DnsListing = {
  content: {
    'application/json': {
      schema: Type.Object({ domain: DomainBody, dns: Type.Array(DnsRecordBody) }),
    },
    'text/plain': { schema: Type.String() },
  },
};

type OwnedDomains = Owned<Domains>;
type OwnedVerification = Owned<Pick<Verification, 'verify'>>;

interface DomainRouteParts {
  readonly domains: OwnedDomains;
  readonly verification: OwnedVerification;
  readonly accounts: Owned<Pick<Accounts, 'removeDomain'>>;
  readonly database: Pick<Database, 'read'>;
}

/** The routes of domains; `accounts/` deletes a domain, since it publishes the loss of its mailboxes. */
export function domainRoutes(parts: DomainRouteParts): RouteGroup {
  const { domains, verification } = parts;
  return (app) => {
    addCreate(app, domains);
    addReads(app, domains);
    addDelete(app, parts);
    addSetRoute(app, domains);
    addMark(app, domains);
    addVerifyAndRotate(app, domains, verification);
  };
}

function addCreate(app: Api, domains: OwnedDomains): void {
  app.post('/v2/domain', {
    config: { refusals: ['domain_exists'] },
    schema: {
      summary: 'Claim a domain',
      description:
        'The domain is pending until its DNS records are verified. Postroom checks them by itself.',
      operationId: 'createDomain',
      body: Type.Object({
        domain: DomainName,
        user_id: UserId,
        organization_id: Type.Optional(Text('Stored and returned, for your own use.', 'org-1')),
      }),
      response: {
        201: Type.Object({
          message: Type.String({
            examples: ['Domain created: publish its 4 DNS records to activate it.'],
          }),
          domain: DetailsBody,
        }),
      },
    },
    handler: async (request, reply) => {
      const { body } = request;
      const owner = ownerOf(request);
      // A key that is bound to an organization claims for it, also where the call does not name it.
      const organizationId = owner.organizationId ?? body.organization_id;
      const claim = { ...owner, organizationId, domain: body.domain };
      const within = answerWithin(request, 201, writeCreated);
      const details = await domains.create(claim, actorOf(request), within);
      return reply.code(201).send(writeCreated(details));
    },
  });
}

function writeCreated(details: DomainDetails) {
  const message = `Domain created: publish its ${details.dns.length} DNS records to activate it.`;
  return { message, domain: writeDetails(details) };
}

function addReads(app: Api, domains: OwnedDomains): void {
  app.get('/v2/domains', {
    schema: {
      summary: "List a user's domains",
      description: 'Ordered by id: the oldest first, or the newest.',
      operationId: 'listDomains',
      querystring: Type.Object({ user_id: UserId, ...pageFields }),
      response: { 200: Type.Object({ items: Type.Array(DomainBody), ...pageEcho }) },
    },
    handler: async (request) => {
      const page = pageOf(request.query);
      const owner = ownerOf(request);
      const items = await domains.list({ ...owner, ...page });
      return answerPage(items.map(writeDomain), page, (most) => domains.count(owner, most));
    },
  });
  const read = {
    params: DomainPath,
    querystring: UserQuery,
  };
  app.get('/v2/domains/:domain/info', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      ...read,
      summary: 'Read a domain',
      operationId: 'getDomain',
      response: { 200: DetailsBody },
    },
    handler: async (request) => {
      const details = await domains.get(ownerOf(request), request.params.domain);
      return writeDetails(request.caller?.isReadOnly ? withoutSecrets(details) : details);
    },
  });
  app.get('/v2/domains/:domain/dns', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      ...read,
      querystring: DnsQuery,
      summary: "List a domain's DNS records",
      description: 'With `format=zone` the answer has lines for a zone file.',
      operationId: 'listDnsRecords',
      response: { 200: DnsListing },
    },
    handler: async (request, reply) => {
      const { params, query } = request;
      const { domain, dns } = await domains.get(ownerOf(request), params.domain);
      if (query.format === 'zone') {
        return reply.type('text/plain; charset=utf-8').send(writeZone(domain.name, dns));
      }
      return { domain: writeDomain(domain), dns: dns.map(writeRecord) };
    },
  });
}

/** Who has the secrets of a webhook can write to its receiver: a key that only reads does not get them. */
function withoutSecrets({ route, ...details }: DomainDetails): DomainDetails {
  const { webhookSecret: _secret, webhookSecretPrevious: _previous, ...shown } = route;
  return { ...details, route: shown };
}

function addDelete(app: Api, { domains, accounts, database }: DomainRouteParts): void {
  app.post('/v2/domains/delete', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      summary: 'Delete a domain',
      description: 'Also deletes its DNS records, route and accounts, and their mail.',
      operationId: 'deleteDomain',
      body: Type.Object({ domain: DomainName, user_id: UserId }),
      response: { 200: Type.Object({ ok: Type.Boolean(), deleted: DomainName }) },
    },
    handler: async (request) => {
      const { domain } = request.body;
      const owner = ownerOf(request);
      const { id } = await domains.find(owner, domain);
      const recorded = { by: actorOf(request), counts: await contentsOfDomain(database.read, id) };
      const describe = ({ name }: Domain) => ({ ok: true, deleted: name });
      const within = answerWithin(request, 200, describe);
      return describe(await accounts.removeDomain(owner, domain, recorded, within));
    },
  });
}

function addSetRoute(app: Api, domains: OwnedDomains): void {
  app.put('/v2/domains/:domain/route', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      summary: "Set how a domain's mail is handled",
      description:
        'Replaces the whole route: a field that is left out is cleared. Mail that was accepted before keeps the old route.',
      operationId: 'setRoute',
      params: DomainPath,
      body: Type.Object(
        {
          user_id: UserId,
          forward_mode: ForwardMode,
          webhook_url: Type.Optional(
            Text(
              'Required for the webhook modes; http or https.',
              'https://app.example.com/hooks/mail',
            ),
          ),
          webhook_secret: Type.Optional(
            Text(
              'Signs deliveries by Standard Webhooks; `whsec_<base64>` is decoded.',
              'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
            ),
          ),
          forward_to_email: Type.Optional(
            Type.String({
              description: 'Required for `forward_email`.',
            }),
          ),
        },
        {
          examples: [
            {
              user_id: 'demo',
              forward_mode: 'webhook_then_store',
              webhook_url: 'https://app.example.com/hooks/mail',
              webhook_secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
            },
          ],
        },
      ),
      response: { 200: DetailsBody },
    },
    handler: async (request) => {
      const { params, body } = request;
      const route = {
        forwardMode: body.forward_mode,
        webhookUrl: body.webhook_url,
        webhookSecret: body.webhook_secret,
        forwardToEmail: body.forward_to_email,
      };
      const by = actorOf(request);
      return writeDetails(await domains.setRoute(ownerOf(request), params.domain, route, by));
    },
  });
}

function addMark(app: Api, domains: OwnedDomains): void {
  app.post('/v2/domains/:domain/dns/mark', {
    config: { refusals: ['domain_not_found', 'dns_record_not_found'] },
    schema: {
      summary: 'Set a DNS record by hand',
      description:
        'For administration and tests. The automatic check leaves the record alone until it is marked `pending`.',
      operationId: 'markDnsRecord',
      params: DomainPath,
      body: Type.Object({
        user_id: UserId,
        id: RecordId,
        status: RecordStatus,
        observed_value: Type.Optional(Text('The `observed_value` to show.', '10 mail.localhost')),
      }),
      response: { 200: DetailsBody },
    },
    handler: async (request) => {
      const { params, body } = request;
      const { id, status, observed_value: observedValue } = body;
      const mark = { id, status, ...present({ observedValue }) };
      const by = actorOf(request);
      const owner = ownerOf(request);
      return writeDetails(await domains.markDnsRecord(owner, params.domain, mark, by));
    },
  });
}

function addVerifyAndRotate(
  app: Api,
  domains: OwnedDomains,
  verification: OwnedVerification,
): void {
  app.post('/v2/domains/:domain/verify', {
    config: {
      refusals: ['domain_not_found', 'rate_limited', 'unavailable'],
      takesKey: false,
    },
    schema: {
      summary: "Check a domain's DNS records now",
      description:
        'Asks DNS at once and returns the result. A domain becomes active without this call, since Postroom checks it by itself. At most once in 10 seconds for a domain.',
      operationId: 'verifyDomain',
      params: DomainPath,
      body: Type.Object({ user_id: UserId }),
      response: { 200: DetailsBody },
    },
    handler: async (request) => {
      const { domain } = request.params;
      const owner = ownerOf(request);
      await verification.verify(owner, domain);
      return writeDetails(await domains.get(owner, domain));
    },
  });
  app.post('/v2/domains/:domain/dkim/rotate', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      summary: "Change a domain's DKIM key",
      description:
        'Makes a second DKIM record, to be published beside the first. Mail is signed with the new key once DNS shows the record; the old one has to stay in DNS for 7 more days. While a new key waits for its record, the call changes nothing.',
      operationId: 'rotateDkim',
      params: DomainPath,
      body: Type.Object({ user_id: UserId }),
      response: { 200: DetailsBody },
    },
    handler: async (request) => {
      const { domain } = request.params;
      return writeDetails(await domains.rotateDkim(ownerOf(request), domain, actorOf(request)));
    },
  });
}
