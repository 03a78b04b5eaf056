// Manages volumes with openapi-fetch, typed by openapi-typescript: client.ts URL TOKEN.

import assert from "node:assert/strict";
import process from "node:process";
import createClient from "openapi-fetch";
import type { components, paths } from "./plimsoll.d.ts";

const GIB = 2 ** 30;
const NAME = "from-typescript";

type Volume = components["schemas"]["Volume"];

const [url, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

const pool = await client.POST("/v1/pools", {
  body: { name: NAME, level: "plimsoll/unlimited", size_bytes: 4 * GIB },
});
assert.equal(pool.response.status, 201, JSON.stringify(pool.error));

const created = await client.POST("/v1/volumes", {
  body: { name: NAME, pool: NAME, size_bytes: GIB, rules: [{ clients: ["127.0.0.1"] }] },
});
assert.equal(created.response.status, 201, JSON.stringify(created.error));
const volume: Volume | undefined = created.data;
assert.ok(volume);
assert.deepEqual(volume.rules[0]?.clients, ["127.0.0.1"]);

const listed = await client.GET("/v1/volumes", { params: { query: { limit: 1000 } } });
assert.ok(listed.data?.items.some((one) => one.id === volume.id && one.version === volume.version));

const params = { path: { name: NAME }, header: { "If-Match": `"${volume.version}"` } };
const changed = await client.PATCH("/v1/volumes/{name}", { params, body: { size_bytes: 2 * GIB } });
assert.equal(changed.data?.size_bytes, 2 * GIB, JSON.stringify(changed.error));

const stale = await client.PATCH("/v1/volumes/{name}", { params, body: { size_bytes: 2 * GIB } });
assert.equal(stale.response.status, 412);
assert.equal(stale.error?.type, "urn:plimsoll:problem:version");

const path = { path: { name: NAME } };
const full = await client.POST("/v1/volumes", { body: { name: "second", pool: NAME, size_bytes: 3 * GIB } });
assert.equal(full.error?.forceable, true, JSON.stringify(full.error));

const deleted = await client.DELETE("/v1/volumes/{name}", { params: path });
assert.equal(deleted.data?.outcome, "succeeded", JSON.stringify(deleted.error));
const emptied = await client.DELETE("/v1/pools/{name}", { params: path });
assert.equal(emptied.response.status, 200, JSON.stringify(emptied.error));
