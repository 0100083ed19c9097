/**
 * A call in curl, JavaScript and Python. Credentials are taken from the environment, as the quickstart sets them;
 * the address is the default one, which the page replaces by its own.
 */
import type { Description, Endpoint, Media, Parameter } from './openapi.ts';
import { sampleOf } from './sample.ts';
import { SAMPLE_ADDRESS } from './sample-address.ts';

interface Credential {
  readonly header: string;
  /** What stands before the secret. */
  readonly scheme: string;
  /** The variable that has the secret. */
  readonly variable: string;
}

const credentials: Readonly<Record<string, Credential>> = {
  apiKey: { header: 'x-api-key', scheme: '', variable: 'KEY' },
  bearer: { header: 'authorization', scheme: 'Bearer ', variable: 'TOKEN' },
  signature: { header: 'x-mailserver-signature', scheme: '', variable: 'SIGNATURE' },
  cookie: { header: 'cookie', scheme: '', variable: 'COOKIE' },
  console: { header: 'cookie', scheme: 'postroom-console=', variable: 'SESSION' },
};

/** The name of the credential that an operation takes. */
export function credentialOf({ security = [] }: Endpoint): string | undefined {
  return Object.keys(security[0] ?? {})[0];
}

/** How the credential of an operation is sent; undefined where it needs none. */
export function credentialHeader(endpoint: Endpoint): Credential | undefined {
  return credentials[credentialOf(endpoint) ?? ''];
}

export function bodyOf({
  requestBody,
}: Endpoint): readonly [type: string, media: Media] | undefined {
  return Object.entries(requestBody?.content ?? {})[0];
}

export function writeBody(description: Description, media: Media): string {
  const value = sampleOf(description, media);
  return typeof value === 'string' ? value.trimEnd() : JSON.stringify(value, null, 2);
}

export function exampleOf({ example, schema, name }: Parameter): string {
  return String(example ?? schema.examples?.[0] ?? schema.enum?.[0] ?? name);
}

/** What the samples of an operation are made of. */
interface Call {
  readonly method: string;
  readonly url: string;
  readonly credential: Credential | undefined;
  /** Media type and content of the body. */
  readonly body: { readonly type: string; readonly value: unknown } | undefined;
  readonly answersJson: boolean;
}

/** The same call in three languages, as a group of code blocks. */
export function writeSamples(description: Description, endpoint: Endpoint): string {
  const call = callOf(description, endpoint);
  const blocks = [
    ['sh', 'curl', writeCurl(call)],
    ['js', 'JavaScript', writeJavaScript(call)],
    ['python', 'Python', writePython(call)],
  ].map(([language, label, code]) => `\`\`\`${language} [${label}]\n${code}\n\`\`\``);
  return `::: code-group\n\n${blocks.join('\n\n')}\n\n:::`;
}

function callOf(description: Description, endpoint: Endpoint): Call {
  let { path } = endpoint;
  const query: string[] = [];
  for (const parameter of endpoint.parameters ?? []) {
    const value = encodeURIComponent(exampleOf(parameter));
    if (parameter.in === 'path') path = path.replace(`{${parameter.name}}`, value);
    else if (parameter.in === 'query' && parameter.required) {
      query.push(`${parameter.name}=${value}`);
    }
  }
  const [type, media] = bodyOf(endpoint) ?? [];
  const success = Object.values(endpoint.responses)[0];
  return {
    method: endpoint.method,
    url: `${SAMPLE_ADDRESS}${path}${query.length > 0 ? `?${query.join('&')}` : ''}`,
    credential: credentialHeader(endpoint),
    body: type && media ? { type, value: sampleOf(description, media) } : undefined,
    answersJson: 'application/json' in (success?.content ?? {}),
  };
}

function isJson(body: Call['body']): boolean {
  return body?.type === 'application/json';
}

function writeCurl({ method, url, credential, body }: Call): string {
  const isImplied = method === 'GET' || (method === 'POST' && body !== undefined);
  const text = typeof body?.value === 'string' ? body.value : JSON.stringify(body?.value, null, 2);
  return [
    `curl -sS ${isImplied ? '' : `-X ${method} `}"${url}"`,
    ...(credential
      ? [`-H "${credential.header}: ${credential.scheme}$${credential.variable}"`]
      : []),
    ...(body ? [`-H 'content-type: ${body.type}'`] : []),
    // Line breaks are part of a message or a batch of events; `-d` would drop them.
    ...(body ? [`${isJson(body) ? '-d' : '--data-binary'} '${text}'`] : []),
  ].join(' \\\n  ');
}

function writeJavaScript({ method, url, credential, body, answersJson }: Call): string {
  const headers = [
    ...(credential
      ? [`'${credential.header}': \`${credential.scheme}\${process.env.${credential.variable}}\`,`]
      : []),
    ...(body ? [`'content-type': '${body.type}',`] : []),
  ];
  const options = [
    ...(method === 'GET' ? [] : [`method: '${method}',`]),
    ...(headers.length > 0 ? ['headers: {', ...headers.map((line) => `  ${line}`), '},'] : []),
    ...(body ? writeLines('body: ', javaScriptBody(body), ',') : []),
  ];
  const tail = options.length > 0 ? `, {\n${indent(options)}\n}` : '';
  const read = answersJson ? 'response.json()' : 'response.text()';
  return `const response = await fetch('${url}'${tail});\nconsole.log(response.status, await ${read});`;
}

function javaScriptBody(body: NonNullable<Call['body']>): string {
  const value = JSON.stringify(body.value, null, 2);
  return isJson(body) ? `JSON.stringify(${value})` : value;
}

function writePython({ method, url, credential, body, answersJson }: Call): string {
  const headers = [
    ...(credential
      ? [`"${credential.header}": f"${credential.scheme}{os.environ['${credential.variable}']}",`]
      : []),
    ...(body ? [`"content-type": "${body.type}",`] : []),
  ];
  const lines = [
    `"${url}",`,
    ...(method === 'GET' ? [] : [`method="${method}",`]),
    ...(headers.length > 0 ? ['headers={', ...headers.map((line) => `  ${line}`), '},'] : []),
    ...(body ? writeLines('data=', pythonBody(body), ',') : []),
  ];
  const modules = ['json', 'os'].filter((name) =>
    name === 'os' ? credential !== undefined : answersJson || isJson(body),
  );
  const imports = modules.length > 0 ? `import ${modules.join(', ')}\n` : '';
  const read = answersJson ? 'json.load(response)' : 'response.read()';
  return `${imports}from urllib.request import Request, urlopen

request = Request(
${indent(lines).replaceAll(/^( +)/gm, '$1$1')}
)
with urlopen(request) as response:
    print(response.status, ${read})`;
}

function pythonBody(body: NonNullable<Call['body']>): string {
  return isJson(body)
    ? `json.dumps(${pythonLiteral(body.value)}).encode()`
    : `${pythonLiteral(body.value)}.encode()`;
}

/** Python has other words for three values of JSON. */
function pythonLiteral(value: unknown): string {
  const words: Readonly<Record<string, string>> = { true: 'True', false: 'False', null: 'None' };
  return JSON.stringify(value, null, 2).replace(
    /"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g,
    (part) => words[part] ?? part,
  );
}

function writeLines(before: string, text: string, after: string): string[] {
  return `${before}${text}${after}`.split('\n');
}

function indent(lines: readonly string[]): string {
  return lines.map((line) => `  ${line}`).join('\n');
}
