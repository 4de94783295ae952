-- The windows and the places of one subject, by the server's clock, in one step.
-- What auth/limit does in memory, but for one thing: buckets are the seconds of
-- the clock.
--
-- KEYS[1], a hash:  o, n   oldest and newest second that may hold something
--                   R, T   requests and tokens of the window
--                   D      tokens owed
--                   lr, lt second in which requests and tokens came last
--                   r<second>, t<second>
-- KEYS[2], a hash:  <router> = order:requests under way:expires (ms)
--
-- ARGV: mode, requests a minute, tokens a minute, concurrency, tokens, router,
--       order, under way at this router, ms that this holds,
--       second of the charge, real tokens, 1 if it never was
-- Modes: acquire; peek, which takes nothing; settle; renew, of places alone.
-- Answer: refused by (0 none, 1 requests, 2 tokens, 3 concurrency), requests,
--       tokens, debt, µs until it may pass, µs until requests and tokens are as
--       new, second of the charge, under way at all routers.

local mode, rpm, tpm, most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens, router, order, underway = tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local hold, charged, real, undone = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), ARGV[12] == '1'
local window, k, places = 60, KEYS[1], KEYS[2]

local time = redis.call('TIME')
local sec, micros = tonumber(time[1]), tonumber(time[2])
local ms = sec * 1000 + math.floor(micros / 1000)

local function int(n) return string.format('%.0f', n) end

-- Places: what routers say of themselves, as long as it holds. Of two messages
-- the one that was sent later counts, in whatever order they come.
local mine, known, others = 0, -1, 0
if most > 0 then
  local all = redis.call('HGETALL', places)
  for i = 1, #all, 2 do
    local o, n, expires = string.match(all[i + 1], '^(%d+):(%d+):(%d+)$')
    if not expires or tonumber(expires) <= ms then
      redis.call('HDEL', places, all[i])
    elseif all[i] == router then
      known, mine = tonumber(o), tonumber(n)
    else
      others = others + tonumber(n)
    end
  end
end
local function place()
  if most > 0 and order > known then
    known, mine = order, underway
    redis.call('HSET', places, router, int(order) .. ':' .. int(underway) .. ':' .. int(ms + hold))
    redis.call('PEXPIRE', places, int(2 * hold))
  end
end
if mode == 'renew' then
  place()
  return {0, 0, 0, 0, 0, 0, 0, 0, others + mine}
end

-- The window moves on to now.
local got = redis.call('HMGET', k, 'o', 'n', 'R', 'T', 'D', 'lr', 'lt')
local oldest, newest = tonumber(got[1] or sec), tonumber(got[2] or sec)
local R, T, D = tonumber(got[3] or 0), tonumber(got[4] or 0), tonumber(got[5] or 0)
local lastR, lastT = tonumber(got[6] or 0), tonumber(got[7] or 0)
if sec < newest then
  if newest - sec > 10 then
    -- The clock was set back: all of it is as if it came now. Nobody gains
    -- anything, and nobody waits until the clock is where it was.
    for b = oldest, newest do redis.call('HDEL', k, 'r' .. b, 't' .. b) end
    redis.call('HSET', k, 'r' .. sec, int(R), 't' .. sec, int(T))
    oldest, lastR, lastT = sec, sec, sec
  else
    sec = newest
  end
end
newest = sec
local function repay(at)
  if D == 0 then return end
  if tpm == 0 then D = 0 return end
  D = math.min(D, tpm * 60)
  local n = math.min(D, tpm - T)
  if n > 0 then
    D, T, lastT = D - n, T + n, math.max(at, lastT)
    redis.call('HINCRBY', k, 't' .. at, int(n))
  end
end
while oldest + window + 1 <= sec do
  if R == 0 and T == 0 and D == 0 then
    oldest = sec
    break
  end
  local f = redis.call('HMGET', k, 'r' .. oldest, 't' .. oldest)
  if f[1] or f[2] then
    R, T = R - tonumber(f[1] or 0), T - tonumber(f[2] or 0)
    redis.call('HDEL', k, 'r' .. oldest, 't' .. oldest)
    repay(oldest + window + 1)
  end
  oldest = oldest + 1
end
repay(sec)

local function save()
  redis.call('HSET', k, 'o', int(oldest), 'n', int(newest), 'R', int(R), 'T', int(T), 'D', int(D), 'lr', int(lastR), 'lt', int(lastT))
  local turns = 1
  if D > 0 then turns = turns + math.ceil(D / tpm) end
  redis.call('EXPIRE', k, int(turns * window + 15))
end

if mode == 'settle' then
  local back = 0
  if charged >= oldest and charged <= newest then
    if real < tokens then
      back = math.min(tokens - real, tonumber(redis.call('HGET', k, 't' .. charged) or 0))
      T = T - back
      if back > 0 then redis.call('HINCRBY', k, 't' .. charged, int(-back)) end
    end
    if undone and tonumber(redis.call('HGET', k, 'r' .. charged) or 0) > 0 then
      R = R - 1
      redis.call('HINCRBY', k, 'r' .. charged, -1)
    end
  end
  if real > tokens then
    if tpm > 0 then
      D = D + real - tokens
      repay(sec)
    else
      T, lastT = T + real - tokens, sec
      redis.call('HINCRBY', k, 't' .. sec, int(real - tokens))
    end
  end
  place()
  save()
  return {0, R, T, D, 0, 0, 0, charged, others + mine}
end

-- until returns the µs until so much will have left, of sum in the fields that
-- begin with name. More than sum is debt, which leaves as it enters.
local function until_left(excess, sum, name)
  if excess <= 0 or sum <= 0 then return 0 end
  local turns = math.floor((excess - 1) / sum)
  excess = excess - turns * sum
  for b = oldest, sec do
    excess = excess - tonumber(redis.call('HGET', k, name .. b) or 0)
    if excess <= 0 then
      return (turns * window + b + window + 1 - sec) * 1000000 - micros
    end
  end
  return (turns + 1) * window * 1000000
end

local refused, wait = 0, -1
local function refuse(by, after)
  if after > wait then refused, wait = by, after end
end
if rpm > 0 and R + 1 > rpm then refuse(1, until_left(R + 1 - rpm, R, 'r')) end
if tpm > 0 and (T + tokens > tpm or D > 0) then refuse(2, until_left(T + D + tokens - tpm, T, 't')) end
if most > 0 then
  local n = underway
  if known > order then n = mine end -- which counts this one in
  if others + n > most then refuse(3, 1000000) end
end
if refused == 0 and mode == 'acquire' then
  if rpm > 0 or tpm > 0 then
    R, T, lastR = R + 1, T + tokens, sec
    redis.call('HINCRBY', k, 'r' .. sec, 1)
    if tokens > 0 then
      lastT = sec
      redis.call('HINCRBY', k, 't' .. sec, int(tokens))
    end
  end
  place()
end
if R > 0 or T > 0 or D > 0 then save() end

local function reset(n, last)
  if n <= 0 then return 0 end
  return math.max(0, (last + window + 1 - sec) * 1000000 - micros)
end
local debt = 0
if D > 0 then debt = math.ceil(D / tpm) * window * 1000000 end
return {refused, R, T, D, math.max(wait, 0), reset(R, lastR), reset(T, lastT) + debt, sec, others + mine}
