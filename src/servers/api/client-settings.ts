/**
 * Where mail programs find their settings. The public files are the same for every address, so they tell nobody which
 * accounts exist: `/.well-known/autoconfig/mail/config-v1.1.xml` and `/mail/config-v1.1.xml` (Thunderbird),
 * `/autodiscover/autodiscover.xml` and `.json` in any case (Outlook). For products: `GET
 * /v2/email-accounts/:id/mobileconfig` (Apple) and `GET /v2/domains/:domain/client-settings`.
 */
import { create as contentDisposition } from 'content-disposition';
import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import { Refusal } from '../../platform/errors/errors.ts';
import { parseAddress } from '../../protocols/message/message.ts';
import type { Accounts } from '../../tenants/accounts/accounts.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import { type Api, type Owned, ownerOf, type RouteGroup } from './route-tools.ts';
import { DomainName, OneOf, RecordId, Text, UserQuery } from './schemas.ts';
import {
  type ProgramServer,
  type ProgramServers,
  writeAutoconfig,
  writeAutodiscover,
  writeMobileconfig,
} from './settings-files.ts';

export interface ClientSettings {
  /** That programs connect to, as the certificate names it. */
  readonly hostname: string;
  /** Ports, 0 where they are off. */
  readonly ports: {
    readonly imaps: number;
    readonly imap: number;
    readonly submissions: number;
    readonly submission: number;
  };
  /** The URL of the service. */
  readonly publicUrl: () => string;
}

function serversOf({ hostname: host, ports }: ClientSettings): ProgramServers {
  const server = (port: number, isSecure: boolean): ProgramServer[] =>
    port === 0 ? [] : [{ host, port, isSecure }];
  return {
    imap: [...server(ports.imaps, true), ...server(ports.imap, false)],
    smtp: [...server(ports.submissions, true), ...server(ports.submission, false)],
  };
}

function refuseOff({ imap, smtp }: ProgramServers, needsBoth = false): void {
  const isOn = needsBoth ? imap.length > 0 && smtp.length > 0 : imap.length + smtp.length > 0;
  if (isOn) return;
  throw new Refusal(
    'route_not_found',
    'mail programs cannot use this server: the operator has not set the ports of IMAP and submission',
  );
}

/** Bytes of a request of Outlook. */
const REQUEST_MAX = 16 * 1024;
const GIVEN_ADDRESS = /<EMailAddress>\s{0,20}([^<>\s]{3,320})\s{0,20}<\/EMailAddress>/i;
const XML = 'application/xml; charset=utf-8';

/** The files for everybody. */
export function settingsFileRoutes(settings: ClientSettings): RouteGroup {
  const servers = serversOf(settings);
  return (app) => {
    autoconfigRoutes(app, settings, servers);
    // In a scope of its own: no other route reads XML.
    app.register(async (scope) => autodiscoverRoutes(scope, settings, servers));
  };
}

function autoconfigRoutes(app: Api, { hostname }: ClientSettings, servers: ProgramServers): void {
  // Thunderbird on phones sends no address.
  const querystring = Type.Object({ emailaddress: Type.Optional(Type.String()) });
  for (const path of ['/.well-known/autoconfig/mail/config-v1.1.xml', '/mail/config-v1.1.xml']) {
    app.get(path, { schema: { hide: true, querystring } }, (request, reply) => {
      refuseOff(servers);
      const domain = parseAddress(request.query.emailaddress ?? '')?.domain;
      return reply.type(XML).send(writeAutoconfig(servers, hostname, domain));
    });
  }
}

/** A name in any case, as a pattern of a path: Outlook writes several. */
function anyCase(name: string): string {
  const letters = [...name].map((letter) =>
    /[a-z]/.test(letter) ? `[${letter}${letter.toUpperCase()}]` : `[${letter}]`,
  );
  return letters.join('');
}

function autodiscoverRoutes(app: Api, settings: ClientSettings, servers: ProgramServers): void {
  app.addContentTypeParser(
    ['text/xml', 'application/xml'],
    { parseAs: 'string', bodyLimit: REQUEST_MAX },
    (_request, body, done) => done(null, body),
  );
  const answerXml = (reply: FastifyReply, given: unknown) => {
    refuseOff(servers);
    const named = typeof given === 'string' ? GIVEN_ADDRESS.exec(given)?.[1] : undefined;
    const address = named !== undefined && parseAddress(named) ? named : undefined;
    return reply.type(XML).send(writeAutodiscover(servers, address));
  };
  const answerJson = (reply: FastifyReply, given: object) => {
    refuseOff(servers);
    const [, protocol] =
      Object.entries(given).find(([name]) => name.toLowerCase() === 'protocol') ?? [];
    if (String(protocol).toLowerCase() !== 'autodiscoverv1') {
      const ErrorMessage = 'The protocol is not known: AutodiscoverV1';
      return reply.code(400).send({ ErrorCode: 'InvalidProtocol', ErrorMessage });
    }
    const Url = `${settings.publicUrl()}/autodiscover/autodiscover.xml`;
    return reply.send({ Protocol: 'AutodiscoverV1', Url });
  };
  const name = anyCase('autodiscover');
  const file = `/:folder(^${name}$)/:file(^${name}[.](?:${anyCase('xml')}|${anyCase('json')})$)`;
  const schema = {
    hide: true,
    querystring: Type.Object({}),
    params: Type.Object({ file: Type.String() }),
  };
  const isXml = (params: { readonly file: string }) => /xml$/i.test(params.file);
  app.get(file, { schema }, ({ params, query }, reply) =>
    isXml(params) ? answerXml(reply, undefined) : answerJson(reply, query),
  );
  app.post(file, { schema, bodyLimit: REQUEST_MAX }, ({ params, body, query }, reply) =>
    isXml(params) ? answerXml(reply, body) : answerJson(reply, query),
  );
  app.get(`${file}/v1.0/:address`, { schema }, ({ query }, reply) => answerJson(reply, query));
}

const ServerBody = Type.Object(
  {
    host: Type.String({ examples: ['mail.localhost'] }),
    port: Type.Integer({ examples: [993] }),
    security: OneOf(['tls', 'starttls'], 'Whether a connection begins with TLS, or with STARTTLS.'),
  },
  { title: 'ProgramServer', description: 'A server that mail programs connect to.' },
);

const SrvBody = Type.Object(
  {
    record_type: OneOf(['SRV']),
    host: Text('Relative to the domain.', '_imaps._tcp'),
    value: Text(
      'Priority, weight, port and target (RFC 2782); the target `.` says that there is no such service.',
      '0 1 993 mail.localhost',
    ),
  },
  { title: 'SrvRecord', description: 'A record that helps mail programs; mail needs none.' },
);

/** For products, about their domains and accounts. */
export function clientSettingsRoutes(
  domains: Owned<Pick<Domains, 'find'>>,
  accounts: Owned<Pick<Accounts, 'get'>>,
  settings: ClientSettings,
): RouteGroup {
  const servers = serversOf(settings);
  return (app) => {
    app.get('/v2/domains/:domain/client-settings', {
      config: { refusals: ['domain_not_found'] },
      schema: {
        summary: 'Read the settings of mail programs',
        description:
          "What people type into their mail programs, and the SRV records (RFC 6186, RFC 8314) by which programs find it. The records are no part of the domain's status: publish them or not.",
        operationId: 'getClientSettings',
        params: Type.Object({ domain: DomainName }),
        querystring: UserQuery,
        response: {
          200: Type.Object({
            domain: DomainName,
            imap: Type.Array(ServerBody),
            smtp: Type.Array(ServerBody),
            username: Text('What the user name is.', 'the whole address'),
            srv: Type.Array(SrvBody),
          }),
        },
      },
      handler: async (request) => {
        const { name } = await domains.find(ownerOf(request), request.params.domain);
        return {
          domain: name,
          imap: servers.imap.map(writeServer),
          smtp: servers.smtp.map(writeServer),
          username: 'the whole address',
          srv: srvRecords(settings),
        };
      },
    });
    app.get('/v2/email-accounts/:id/mobileconfig', {
      config: { refusals: ['account_not_found', 'route_not_found'] },
      schema: {
        summary: 'Get the profile of an account for Apple devices',
        description:
          'A configuration profile (`.mobileconfig`) that sets the account up in Mail of iOS and macOS. It has no password: the device asks for it. Without IMAP and submission there is none.',
        operationId: 'getMobileconfig',
        params: Type.Object({ id: RecordId }),
        querystring: UserQuery,
        response: { 200: { content: { [PROFILE]: { schema: Type.String() } } } },
      },
      handler: async (request, reply) => {
        const account = await accounts.get(ownerOf(request), request.params.id);
        refuseOff(servers, true);
        const [imap] = servers.imap;
        const [smtp] = servers.smtp;
        if (!imap || !smtp) throw new Error('a profile was written without its servers');
        const name = contentDisposition(`${account.address}.mobileconfig`);
        reply.header('content-disposition', name).type(PROFILE);
        return reply.send(writeMobileconfig([imap, smtp], account));
      },
    });
  };
}

const PROFILE = 'application/x-apple-aspen-config';

function writeServer({ host, port, isSecure }: ProgramServer) {
  return { host, port, security: isSecure ? ('tls' as const) : ('starttls' as const) };
}

/** RFC 6186 section 3, RFC 8314 section 5.1: TLS first is preferred, and what is not there is said to be so. */
function srvRecords({ hostname, ports, publicUrl }: ClientSettings) {
  const { protocol, hostname: web, port = '' } = new URL(publicUrl());
  const found = [
    srv('_imaps._tcp', ports.imaps, hostname),
    srv('_submissions._tcp', ports.submissions, hostname),
    srv('_imap._tcp', ports.imaps > 0 ? 0 : ports.imap, hostname),
    srv('_submission._tcp', ports.submissions > 0 ? 0 : ports.submission, hostname),
    srv('_pop3._tcp', 0, hostname),
    srv('_pop3s._tcp', 0, hostname),
  ];
  const isOn = Object.values(ports).some((one) => one > 0);
  // Outlook asks by HTTPS alone.
  if (isOn && protocol === 'https:')
    found.push(srv('_autodiscover._tcp', Number(port || 443), web, 0));
  return found;
}

function srv(host: string, port: number, target: string, weight = 1) {
  const value = port === 0 ? '0 0 0 .' : `0 ${weight} ${port} ${target}`;
  return { record_type: 'SRV' as const, host, value };
}
