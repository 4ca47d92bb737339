-- What an add says beside payload and time, packed: lines of NAME=VALUE (scheduld/client/shaping.py).
local function read_load(text)
  local load = {text = text}
  for name, value in string.gmatch(text or '', '([%l_]+)=([^\n]*)') do
    load[name] = value
  end
  return load
end

-- The task is the one of what it is unique in.
local function register(id, load)
  if load.unique and load.unique_for then
    redis.call('SET', root .. 'unique:' .. load.unique, id, 'PX', load.unique_for)
  elseif load.unique then
    redis.call('SET', root .. 'unique:' .. load.unique, id)
  end
end

local function write_load(id, at, load)
  local expires = load.expires or load.expires_after and int(at + load.expires_after)
  local values = {priority = load.priority, key = load.key, unique = load.unique,
    first = load.first, expires = expires, every = load.every, ['until'] = load['until'],
    max_runs = load.max_runs, zone = load.zone, series = load.series, missed = load.missed,
    -- The grid of a series begins where it was added to, whatever moves its first occurrence.
    anchor = load.anchor or load.every and int(at)}
  local fields = {}
  for name, value in pairs(values) do
    if value then
      fields[#fields + 1], fields[#fields + 2] = name, value
    end
  end
  if #fields > 0 then
    redis.call('HSET', prefix .. id, unpack(fields))
  end
  register(id, load)
end

-- What was to follow a run does not.
local function drop_successor(id)
  local key = prefix .. id
  local load = redis.pcall('HGET', key, 'next_load')
  local digest = type(load) == 'string' and read_load(load).unique
  if digest and digest ~= redis.call('HGET', key, 'unique') then
    leave_unique(id, digest, true)
  end
  redis.call('HDEL', key, 'next', 'next_payload', 'next_token', 'next_load')
end
