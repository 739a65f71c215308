// Starts coordd, in the ways that the tests reach it.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import * as net from 'node:net'
import * as os from 'node:os'
import * as path from 'node:path'
import { createInterface } from 'node:readline'
import { AccessTokenCredentialsProvider } from '@ydbjs/auth/access-token'
import { StaticCredentialsProvider } from '@ydbjs/auth/static'
import { Driver } from '@ydbjs/core'

const program = process.env.COORDD_BIN
if (!program) {
	throw new Error('COORDD_BIN names no program: `make compat-js` builds it and runs this')
}

const user = 'root'
const password = '1234'
const token = 'token-of-root'

/** A server, which ends with stop. */
class Server {
	#process
	#log
	#ready

	constructor(directory, name, ...args) {
		this.#log = path.join(directory, `${name}.log`)
		const log = fs.openSync(this.#log, 'w')
		this.#process = spawn(program, ['serve', '--listen-http=off', '--listen=127.0.0.1:0', ...args], {
			stdio: ['ignore', 'pipe', log],
		})
		fs.closeSync(log)
		this.#ready = new Promise((resolve) => {
			const lines = createInterface({ input: this.#process.stdout })
			lines.once('line', resolve)
			lines.once('close', () => resolve(''))
		})
	}

	/** Waits until the server serves, and returns its connection string. */
	async ready() {
		const connection = await this.#ready
		if (!connection) {
			throw new Error(`coordd does not start\n${this.log}`)
		}
		return connection
	}

	get log() {
		return fs.readFileSync(this.#log, 'utf8')
	}

	async stop() {
		if (this.#process.exitCode === null && this.#process.signalCode === null) {
			const exit = once(this.#process, 'exit')
			this.#process.kill('SIGTERM')
			await exit
		}
		if (this.#process.exitCode !== 0) {
			throw new Error(`coordd ended with ${this.#process.exitCode ?? this.#process.signalCode}\n${this.log}`)
		}
	}
}

/**
 * Starts servers for every way: without anything, with TLS and a login, with a token, and three servers, through each of
 * them and through those that discovery finds. Returns the ways, each with drivers(n), which opens n drivers, and a
 * function that stops everything.
 */
export async function startWays() {
	const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'coordd-compat-js-'))
	const write = (name, text) => {
		const file = path.join(directory, name)
		fs.writeFileSync(file, text, { mode: 0o600 })
		return file
	}
	const servers = []
	const opened = []
	const start = (...args) => {
		const server = new Server(directory, `server-${servers.length}`, ...args)
		servers.push(server)
		return server
	}
	const stop = async () => {
		for (const driver of opened) {
			driver.close()
		}
		const stopped = await Promise.allSettled(servers.map((server) => server.stop()))
		fs.rmSync(directory, { recursive: true })
		const failed = stopped.find(({ status }) => status === 'rejected')
		if (failed) {
			throw failed.reason
		}
	}
	const open = async (connection, options) => {
		const driver = new Driver(connection, options)
		opened.push(driver)
		await driver.ready()
		return driver
	}
	/** A way in which each driver is opened with the next connection string, beginning again after the last. */
	const way = (name, connections, options = {}) => {
		let next = 0
		const openNext = () => open(connections[next++ % connections.length], options)
		return { name, drivers: (n) => Promise.all(Array.from({ length: n }, openNext)) }
	}

	try {
		const certificates = path.join(directory, 'certificates')
		execFileSync(program, ['cert', '--dir', certificates], { stdio: ['ignore', 'ignore', 'inherit'] })
		const users = [`--initial-admin=${user}`, '--initial-admin-password-file', write('password', `${password}\n`)]
		const guarded = ['--auth=required', '--token-file', write('tokens', `${token} ${user}\n`), ...users]
		const tls = ['--listen-tls=127.0.0.1:0', '--tls-cert', path.join(certificates, 'cert.pem'),
			'--tls-key', path.join(certificates, 'key.pem')]

		const plain = start('--in-memory')
		const secure = start('--in-memory', ...guarded, ...tls)
		const names = ['a', 'b', 'c']
		const peers = await freeAddresses(names.length)
		const members = names.map((name, i) => `${name}=${peers[i]}`).join(',')
		const cluster = names.map((name, i) => start('--name', name, '--listen-peer', peers[i], '--insecure-peers',
			'--initial-cluster', members, '--data-dir', path.join(directory, name)))

		const plainConnection = await plain.ready()
		const guardedConnection = await secure.ready()
		const secureConnection = secure.log.match(/grpcs:\/\/[^\s"]+/)[0]
		const clusterConnections = await Promise.all(cluster.map((server) => server.ready()))
		const secureOptions = { ca: fs.readFileSync(path.join(certificates, 'ca.pem')) }
		const pinned = { 'ydb.sdk.enable_discovery': false }
		const ways = [
			way('plain', [plainConnection]),
			way('tls and login', [secureConnection], {
				secureOptions,
				credentialsProvider: new StaticCredentialsProvider({ username: user, password }, secureConnection, secureOptions),
			}),
			way('token', [guardedConnection], { credentialsProvider: new AccessTokenCredentialsProvider({ token }) }),
			...names.map((name, i) => way(`${name} of three`, [clusterConnections[i]], pinned)),
			way('three, a client on each', clusterConnections, pinned),
			way('three, by discovery', clusterConnections),
		]
		return { ways, stop, refused: { anonymous: guardedConnection, secureConnection, secureOptions, user } }
	} catch (error) {
		await stop().catch(() => {})
		throw error
	}
}

/**
 * Addresses that nobody listens on, by the convention of internal/testserver/ports.go: they follow a port on which this
 * process listens until it ends, so no other test takes them, and no outgoing connection does.
 */
async function freeAddresses(n) {
	for (;;) {
		const first = 10_240 + 128 * Math.floor(Math.random() * 176)
		const ports = Array.from({ length: n + 1 }, (_, i) => first + i)
		const listeners = ports.map((port) => net.createServer().listen(port, '127.0.0.1'))
		const tried = await Promise.allSettled(listeners.map((listener) => once(listener, 'listening')))
		const taken = tried.some(({ status }) => status === 'rejected')
		const [held, ...freed] = listeners.filter((listener) => listener.listening)
		const closed = taken ? [held, ...freed].filter(Boolean) : freed
		await Promise.all(closed.map((listener) => once(listener.close(), 'close')))
		if (!taken) {
			held.unref()
			return ports.slice(1).map((port) => `127.0.0.1:${port}`)
		}
	}
}
