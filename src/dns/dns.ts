/**
 * DNS as the other capabilities ask it: one question, one typed answer that tells "there is no such
 * record" from "nobody could be asked". Owns nothing in storage.
 */
export type { DnsAnswer, DnsLookup, DnsRecords, DnsType, MxRecord } from './answer.ts';
export { createDnsResolver, type DnsResolver, type DnsResolverOptions } from './resolver.ts';
