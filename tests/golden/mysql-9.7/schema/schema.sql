CREATE TABLE `ta``ble-表` (
  `id` int NOT NULL,
  `from` int DEFAULT NULL,
  `ключ` varchar(9) DEFAULT NULL,
  `a``b` int DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE `prefixed` (
  `b` int DEFAULT NULL,
  `name` varchar(50) NOT NULL,
  `id` int NOT NULL,
  `v` blob NOT NULL,
  PRIMARY KEY (`name`(4),`id`,`v`(7))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE `unkeyed` (
  `a` int DEFAULT NULL,
  `b` varchar(20) DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE `made` (
  `id` int NOT NULL,
  `a` int DEFAULT NULL,
  `v` int GENERATED ALWAYS AS ((`a` * 2)) VIRTUAL,
  `s` varchar(40) GENERATED ALWAYS AS (concat(_utf8mb4's',`a`)) STORED,
  `hid` int DEFAULT '7' /*!80023 INVISIBLE */,
  `z` int DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE `moved` (
  `at` datetime(3) DEFAULT NULL,
  `id` int NOT NULL,
  `b` varchar(300) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
