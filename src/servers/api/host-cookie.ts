/**
 * A cookie (RFC 6265) that only this host gets. It is hidden from scripts, and only pages of this site send it
 * (SameSite=Strict), so that no other site makes a browser use it. With HTTPS its name shows that this host has set it
 * (`__Host-`), so that no other host of the domain can replace it.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';

/** The most cookies of one request that are read. */
const COOKIES_READ = 5;

interface HostCookieOptions {
  readonly name: string;
  /** The path that it is sent to without TLS; with HTTPS a `__Host-` cookie is sent to all paths. */
  readonly path: string;
  readonly maxAgeSeconds: number;
  /** The URL of the service: with HTTPS, the cookie is sent only by HTTPS. */
  readonly publicUrl: () => string;
}

export class HostCookie {
  readonly #options: HostCookieOptions;

  constructor(options: HostCookieOptions) {
    this.#options = options;
  }

  /** The values of all cookies of this name: several where they were set for several paths or hosts. */
  read(request: FastifyRequest): string[] {
    const start = `${this.#name(request)}=`;
    const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim());
    const values = pairs
      .filter((one) => one.startsWith(start))
      .map((one) => one.slice(start.length));
    return [...new Set(values)].filter((value) => value !== '').slice(0, COOKIES_READ);
  }

  /** @param value empty removes the cookie */
  set(value: string, request: FastifyRequest, reply: FastifyReply): void {
    const { path, maxAgeSeconds } = this.#options;
    const isSecure = this.#isSecure(request);
    const fields = [
      `${this.#name(request)}=${value}`,
      // Browsers accept a `__Host-` cookie only with this path.
      `Path=${isSecure ? '/' : path}`,
      `Max-Age=${value === '' ? 0 : maxAgeSeconds}`,
      'HttpOnly',
      'SameSite=Strict',
      ...(isSecure ? ['Secure'] : []),
    ];
    reply.header('set-cookie', fields.join('; '));
  }

  #isSecure({ protocol }: FastifyRequest): boolean {
    return protocol === 'https' || this.#options.publicUrl().startsWith('https:');
  }

  /** RFC 6265bis section 4.1.3.2; without TLS browsers accept no cookie of that name. */
  #name(request: FastifyRequest): string {
    const { name } = this.#options;
    return this.#isSecure(request) ? `__Host-${name}` : name;
  }
}
