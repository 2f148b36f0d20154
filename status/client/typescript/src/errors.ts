import type { components } from "./schema.js";

/** Problem is the body of an error. */
export type Problem = components["schemas"]["Problem"];

/** What kind of error the service reports. Codes do not change. */
export type Code = Problem["code"];

/** ServiceError says that the service refused a request, or failed. */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  /** The HTTP status, or 0 if the answer had begun before the error came. */
  readonly status: number;
  readonly code: Code;
  /** What to do about it; may be empty. */
  readonly hint: string;
  /** Names similar to one that was not found, or names of teams that could be meant. */
  readonly nearest: readonly string[];

  constructor(problem: Omit<Problem, "type" | "title">) {
    super(problem.detail);
    this.status = problem.status;
    this.code = problem.code;
    this.hint = problem.hint;
    this.nearest = problem.nearest ?? [];
  }
}

/** UnreachableError says that no answer came, or only a part of one, or that no service runs. */
export class UnreachableError extends Error {
  override readonly name = "UnreachableError";

  constructor(
    message: string,
    /**
     * The service may have done what it was asked to, since it was connected to. A message that is
     * sent again under the same id is sent once.
     */
    readonly sent: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** SkewError says that what answered is another version of teambridge, or another program. */
export class SkewError extends Error {
  override readonly name = "SkewError";

  constructor(where: string, reason: string, options?: ErrorOptions) {
    super(`the service at ${where} is another version or another program: ${reason}`, options);
  }
}
