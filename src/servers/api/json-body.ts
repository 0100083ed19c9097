/**
 * JSON request bodies: UTF-8 (RFC 8259 section 8.1), no more values than any request needs, no text that the database
 * cannot store; members that are null count as absent.
 */
import { isUtf8 } from 'node:buffer';
import type { FastifyRequest } from 'fastify';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import { enterTurnOfClient } from './request-turns.ts';
import type { Api } from './route-tools.ts';

/**
 * The most values of one body. A body of 16 MiB can have millions, and reading those blocks everything for seconds. A
 * message to 3,000 recipients with names has 9,000.
 */
const VALUES_MAX = 10_000;

/** Makes `application/json` the only body type; route groups may add their own. */
export function acceptJsonBodies(app: Api): void {
  // Refuses __proto__ and constructor.prototype keys, which could reach Object.prototype.
  const parseJson = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, bytes: string | Buffer) => {
      // RFC 9110 section 15.5.16: codings are refused like media types.
      const coding = request.headers['content-encoding'] ?? 'identity';
      if (coding.toLowerCase() !== 'identity') {
        throw new Refusal('unsupported_media_type', 'the body must have no Content-Encoding');
      }
      // Bodies that end together would be read and checked together.
      const waits = enterTurnOfClient(request.clientAddress);
      if (waits) await waits;
      if (!Buffer.isBuffer(bytes) || !isUtf8(bytes)) {
        throw new Refusal('invalid_request', 'the body is not UTF-8');
      }
      if (hasManyValues(bytes)) {
        const detail = `the body must have at most ${VALUES_MAX} members and items`;
        throw new Refusal('invalid_request', detail);
      }
      const text = bytes.toString();
      // Typed as a possible promise; with a callback it is none, and calls at once.
      let failure: Error | null = null;
      let body: unknown;
      void parseJson(request, text, (error, parsed) => {
        failure = error;
        body = parsed;
      });
      if (failure) throw text === '' ? failure : refuseText(text);
      // UTF-8 JSON has no raw control characters, so only an escape can make such text.
      const field = text.includes('\\u') ? findUnstorable(body) : undefined;
      if (field !== undefined) {
        throw invalidField(field, 'must have no NUL characters or unpaired surrogates');
      }
      if (text.includes('null')) removeNulls(body);
      return body;
    },
  );
}

/** Why a text was not taken. Of V8's words those that do not repeat the text: a place, or one character. */
function refuseText(text: string): Refusal {
  try {
    JSON.parse(text.replace(/^\ufeff/, ''));
  } catch (error) {
    const message = error instanceof Error ? error.message : '';
    const [, place] = /\((line \d+ column \d+)\)$/.exec(message) ?? [];
    const [, token] = /^Unexpected token ('.')/su.exec(message) ?? [];
    const end = message.startsWith('Unexpected end') ? 'it ends too early' : 'unexpected word';
    const why = place ?? (token ? `unexpected ${token.toWellFormed()}` : end);
    return new Refusal('invalid_request', `the body is not JSON: ${why}`);
  }
  const detail = 'the body must have no members __proto__ or constructor.prototype';
  return new Refusal('invalid_request', detail);
}

/**
 * Whether JSON has too many members and items, counted before it is parsed: each comma stands before one, and so does each
 * bracket, unless nothing is in it.
 */
function hasManyValues(json: Uint8Array): boolean {
  // Each takes one octet or more.
  if (json.length <= VALUES_MAX) return false;
  let count = 0;
  let isOpened = false;
  let inString = false;
  for (let at = 0; at < json.length; at++) {
    const sign = json[at];
    if (isOpened && !isSpace(sign)) {
      isOpened = false;
      if (sign !== 0x5d && sign !== 0x7d && ++count > VALUES_MAX) return true;
    }
    switch (sign) {
      case 0x22: // "
        inString = !inString;
        break;
      case 0x5c: // a backslash, with what it escapes
        at++;
        break;
      case 0x5b:
      case 0x7b:
        isOpened = !inString;
        break;
      case 0x2c:
        if (!inString && ++count > VALUES_MAX) return true;
    }
  }
  return false;
}

/** RFC 8259 section 2. */
function isSpace(octet: number | undefined): boolean {
  return octet === 0x20 || octet === 0x0a || octet === 0x0d || octet === 0x09;
}

/** A value of a body, and the member or item that it is. */
interface Location {
  readonly value: unknown;
  readonly name: string;
  readonly parent: Location | undefined;
}

/** The longest name of a field; its sender chooses how deep it lies. */
const FIELD_MAX = 200;

/**
 * The field of which a string cannot be stored: PostgreSQL has no U+0000, and a lone surrogate has no UTF-8. Where that is
 * the name of a member, the object that has it. Walks with a stack of its own, since the sender chooses the depth.
 */
function findUnstorable(body: unknown): string | undefined {
  const pending: Location[] = [{ value: body, name: '', parent: undefined }];
  for (let location = pending.pop(); location; location = pending.pop()) {
    const { value } = location;
    if (typeof value === 'string') {
      if (!isStorable(value)) return fieldOf(location);
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) {
        if (!isStorable(name)) return fieldOf(location);
        pending.push({ value: member, name, parent: location });
      }
    }
  }
  return undefined;
}

function isStorable(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

/** Named as fields of the wrong type are, such as `to.0.name`. */
function fieldOf(location: Location): string {
  const names: string[] = [];
  for (let at = location; at.parent; at = at.parent) names.push(at.name);
  return names.reverse().join('.').slice(0, FIELD_MAX).toWellFormed() || 'body';
}

/**
 * Many clients send null for values that they do not have, at any depth; a required member is then missing. Items of
 * lists stay: without them the others would have other places. Walks with a stack of its own, as above.
 */
function removeNulls(body: unknown): void {
  const pending = [body];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value !== 'object' || value === null) continue;
    // The body was just parsed, and nobody else has it.
    const members = value as Record<string, unknown>;
    for (const [name, member] of Object.entries(members)) {
      if (member === null && !Array.isArray(value)) delete members[name];
      else pending.push(member);
    }
  }
}
