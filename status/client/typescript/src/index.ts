/**
 * A client of the teambridge service ("teambridge serve") for Node.js, over its unix socket or over TCP.
 *
 * @module
 */
export { Client, type Call, type ClientOptions, type Line, type Schemas } from "./client.js";
export { type Code, type Problem, ServiceError, SkewError, UnreachableError } from "./errors.js";
export type { Event, StreamOptions } from "./events.js";
export { type FindOptions, type Place, find } from "./find.js";
export type { paths } from "./schema.js";
